"""Settings: JSON round trips, overrides with all problems, differences."""

import dataclasses
import json

import pytest

from kdkit import settings
from kdkit.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    size: int = 1
    rate: float = 0.5
    on: bool = False
    options: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    place: str | Part | None = None
    pairs: str | dict[str, int] | None = None
    layers: tuple[int, ...] = ()


WHOLE = Whole((Part("first"), Part("second", 2, options={"t": 1.0})))


def test_settings_survive_json():
    values = json.loads(json.dumps(settings.to_dict(WHOLE)))
    assert settings.from_dict(Whole, values) == WHOLE


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


def test_override_reports_all_problems_together():
    with pytest.raises(UsageError) as raised:
        settings.override(
            WHOLE,
            ["parts.third.size=1", "parts.0.size=x", "plaice=1", "layers"],
        )
    message = str(raised.value)
    assert "there is no 'third'. Valid here: first, second" in message
    assert "Wrong type for 'parts.0.size'. Expected int. Received: 'x'" in (
        message
    )
    assert "Unknown setting 'plaice'. Valid here: " in message
    assert "parts, place, pairs, layers" in message
    assert "Expected dotted.field=value. Received: 'layers'" in message


@pytest.mark.parametrize("value", ["1", '"1"', "1.5", "true"])
def test_an_integer_field_takes_integers_only(value):
    if value == "1":
        assert settings.override(WHOLE, [f"parts.0.size={value}"])
        return
    with pytest.raises(UsageError, match="Expected int"):
        settings.override(WHOLE, [f"parts.0.size={value}"])


def test_from_dict_names_unknown_and_missing_fields():
    with pytest.raises(UsageError) as raised:
        settings.from_dict(Whole, {"parts": [{"size": 1}], "extra": 1})
    assert "Unknown setting 'extra'" in str(raised.value)
    with pytest.raises(UsageError, match=r"'parts\.0\.name' is missing"):
        settings.from_dict(Whole, {"parts": [{"size": 1}]})


def test_differences_name_the_fields():
    changed = settings.override(WHOLE, ["parts.second.rate=1", "place=x"])
    assert settings.differences(
        settings.to_dict(WHOLE), settings.to_dict(changed)
    ) == ["parts.second.rate: 0.5 -> 1.0", 'place: null -> "x"']


def test_differences_of_equal_settings_are_none():
    values = settings.to_dict(WHOLE)
    assert settings.differences(values, values) == []
