"""kdkit.settings: JSON round trips, mistakes, differences."""

import dataclasses
import itertools
import json
import re

import pytest
from pydantic.dataclasses import dataclass

from kdkit import settings
from kdkit.config.differences import differing_fields
from kdkit.recipes import RECIPES, Stage
from kdkit.runs.names import parse_value
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
    ("text", "value"),
    [
        ("3", 3),
        ("2e-5", 2e-5),
        ("True", True),
        ("none", "none"),
        ("None", None),
        ("[1, 2]", [1, 2]),
        ('{"1": 3}', {"1": 3}),
        ("uniform", "uniform"),
    ],
)
def test_a_value_is_json_where_it_parses(text, value):
    assert parse_value(text) == value


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"plaice": 1}, "field 'plaice'. Expected one of: place, "),
        ({"parts": [{"name": "a", "sise": 1}]}, "field of a 'sise'"),
        ({"parts": [{"name": "a", "size": "x"}]}, "parts.a.size: Input should"),
        ({"parts": [{"name": "a", "size": 1.5}]}, "integer"),
        ({"place": {"nme": 1}}, "place.nme"),
        ({"parts": [{"size": 1}]}, "parts.0.name: Field required"),
    ],
)
def test_a_wrong_field_is_named_with_those_that_are_there(changes, named):
    values = settings.to_dict(WHOLE) | changes
    with pytest.raises(ValueError, match=re.escape(named)):
        settings.from_dict(Whole, values)


def test_differences_name_the_fields():
    first = {"a": {"rate": 0.5, "on": True}, "place": None, "b": {}}
    second = {"a": {"rate": 1.0, "on": True}, "place": "x", "b": {"c": 1}}
    assert differing_fields(first, second) == {
        "a.rate": ("0.5", "1.0"),
        "place": ("null", '"x"'),
        "b": ("{}", "(c)"),
    }
    assert not differing_fields(first, first)
