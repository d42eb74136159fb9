"""kdkit.settings: JSON round trips, overrides, differences."""

import dataclasses
import itertools
import json
import re

import pytest
from pydantic.dataclasses import dataclass

from kdkit import settings
from kdkit.recipes import RECIPES, Stage
from kdkit.tasks import TASKS, get_task


@dataclass(frozen=True, config=settings.STRICT)
class Part:
    name: str
    size: int = 1
    rate: float = 0.5
    on: bool = False
    options: dict = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, config=settings.STRICT)
class Whole:
    parts: tuple[Part, ...]
    place: str | Part | None = None
    pairs: str | dict[str, int] | None = None
    layers: tuple[int, ...] = ()


WHOLE = Whole((Part("first"), Part("second", 2, options={"t": 1.0})))


def test_settings_survive_json():
    values = json.loads(json.dumps(settings.to_dict(WHOLE)))
    assert settings.from_dict(Whole, values) == WHOLE


def test_stages_survive_json_for_every_task_and_parity():
    for recipe, task in itertools.product(RECIPES.values(), TASKS):
        for parity in (None, *recipe.parities):
            for stage in recipe.stages_for(get_task(task), parity):
                values = json.loads(json.dumps(settings.to_dict(stage)))
                assert settings.from_dict(Stage, values) == stage


@pytest.mark.parametrize(
    ("assignment", "read", "expected"),
    [
        ("parts.0.size=3", lambda s: s.parts[0].size, 3),
        ("parts.second.size=3", lambda s: s.parts[1].size, 3),
        ("parts.first.rate=2", lambda s: s.parts[0].rate, 2.0),
        ("parts.first.on=True", lambda s: s.parts[0].on, True),
        ("place=somewhere", lambda s: s.place, "somewhere"),
        ("place=None", lambda s: s.place, None),
        ('pairs={"1": 3}', lambda s: s.pairs, {"1": 3}),
        ("pairs=uniform", lambda s: s.pairs, "uniform"),
        ("layers=[1, 2]", lambda s: s.layers, (1, 2)),
        ("parts.first.options.k=64", lambda s: s.parts[0].options["k"], 64),
        ("parts.second.options.t=4.0", lambda s: s.parts[1].options["t"], 4.0),
    ],
)
def test_override_sets_a_typed_value(assignment, read, expected):
    changed = settings.override(WHOLE, [assignment])
    assert read(changed) == expected
    assert type(read(changed)) is type(expected)


@pytest.mark.parametrize(
    ("assignment", "named"),
    [
        ("plaice=1", "field 'plaice'. Expected one of: place, "),
        ("parts.third.size=1", "parts 'third'"),
        ("parts.first.sise=1", "field of first 'sise'. Expected one of: size"),
        ("place.name=x", "place 'name'"),
        ("parts.0.size=x", "parts.first.size: Input should be a valid int"),
        ("parts.0.size=1.5", "integer"),
        ('place={"nme": 1}', "place.nme"),
        ('parts=[{"size": 1}]', "parts.0.name: Field required"),
    ],
)
def test_a_wrong_field_is_named_with_those_that_are_there(assignment, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        settings.override(WHOLE, [assignment])


def test_differences_name_the_fields():
    changed = settings.override(WHOLE, ["parts.second.rate=1", "place=x"])
    assert settings.differences(
        settings.to_dict(WHOLE), settings.to_dict(changed)
    ) == ["parts.second.rate: 0.5 -> 1.0", 'place: null -> "x"']
    assert not settings.differences(values := settings.to_dict(WHOLE), values)
