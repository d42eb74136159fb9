"""How renamed settings are compared with goldens in their old spelling."""

import pytest
from kit.goldens import differences, flat, in_old_spelling, matched

TABLE = {
    "renamed": {
        "stages.*.hard_label_weight": "stages.*.label_weight",
        "teacher.**": "parts.teacher.**",
    },
    "added": {"stages.*.seed": None},
    "removed": {"parity": "the stages have it"},
}


@pytest.mark.parametrize(
    ("pattern", "key", "stars"),
    [
        ("a.b", "a.b", []),
        ("a.*.c", "a.0.c", ["0"]),
        ("a.**", "a.b.c", ["b.c"]),
        ("a.**", "a", None),
        ("**.c", "a.b.c", ["a.b"]),
        ("**.c", "a.bc", None),
        ("a.*", "a.b.c", None),
        ("a.b", "a", None),
    ],
)
def test_patterns_fit_keys(pattern, key, stars):
    assert matched(pattern, key) == stars


def test_renamed_keys_are_compared_in_their_old_spelling():
    config = {
        "stages": [{"label_weight": 1.0, "seed": None}, {"seed": 3}],
        "parts": {"teacher": {"model": {"num_layers": 3}}},
    }
    assert in_old_spelling(flat(config), TABLE) == {
        "stages.0.hard_label_weight": 1.0,
        "stages.1.seed": 3,
        "teacher.model.num_layers": 3,
    }


def test_only_numbers_with_a_fraction_have_a_tolerance():
    golden = {"a": 1.0, "b": 2, "c": "x", "d": [True]}
    near = {"a": 1.0000001, "b": 2, "c": "x", "d": [True]}
    assert not list(differences(golden, near, 1e-6))
    far = {"a": 1.00001, "b": 3, "c": "y", "d": [1]}
    assert len(list(differences(golden, far, 1e-6))) == 4
    assert len(list(differences(golden, {"a": 1.0, "e": 1}, 1e-6))) == 4
