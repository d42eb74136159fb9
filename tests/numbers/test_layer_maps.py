"""Layer maps: the papers' tables, all depths, and the golden ones."""

import numpy as np
import pytest
from kit import goldens

import kdkit

TABLE = [
    # TinyBERT, g(m) = m N / M
    ("uniform", 12, 6, {1: 2, 2: 4, 3: 6, 4: 8, 5: 10, 6: 12}),
    ("uniform", 12, 4, {1: 3, 2: 6, 3: 9, 4: 12}),
    ("uniform", 12, 3, {1: 4, 2: 8, 3: 12}),
    ("uniform", 24, 6, {1: 4, 2: 8, 3: 12, 4: 16, 5: 20, 6: 24}),
    ("uniform", 6, 4, {1: 2, 2: 3, 3: 5, 4: 6}),  # nearest to 1.5, 3, 4.5, 6
    ("uniform", 12, 5, {1: 2, 2: 5, 3: 7, 4: 10, 5: 12}),  # to 2.4, 4.8, …
    ("uniform", 12, 1, {1: 12}),
    # DistilBERT's copied blocks
    ("spread", 12, 6, {1: 1, 2: 3, 3: 5, 4: 8, 5: 10, 6: 12}),
    ("spread", 6, 3, {1: 1, 2: 3, 3: 6}),
    ("spread", 24, 6, {1: 1, 2: 6, 3: 10, 4: 15, 5: 19, 6: 24}),
    ("spread", 6, 1, {1: 6}),
    ("top", 12, 6, {1: 7, 2: 8, 3: 9, 4: 10, 5: 11, 6: 12}),
    ("top", 12, 4, {1: 9, 2: 10, 3: 11, 4: 12}),
    ("top", 12, 3, {1: 10, 2: 11, 3: 12}),
    ("top", 24, 6, {1: 19, 2: 20, 3: 21, 4: 22, 5: 23, 6: 24}),
    ("top", 6, 4, {1: 3, 2: 4, 3: 5, 4: 6}),
    ("bottom", 12, 6, {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}),
    ("bottom", 12, 4, {1: 1, 2: 2, 3: 3, 4: 4}),
    ("bottom", 24, 6, {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}),
    # Patient KD leaves the final student block out
    ("skip", 12, 6, {1: 2, 2: 4, 3: 6, 4: 8, 5: 10}),
    ("skip", 12, 4, {1: 3, 2: 6, 3: 9}),
    ("skip", 12, 3, {1: 4, 2: 8}),
    ("skip", 24, 6, {1: 4, 2: 8, 3: 12, 4: 16, 5: 20}),
    ("skip", 6, 4, {1: 2, 2: 3, 3: 5}),
    ("last", 12, 6, {1: 7, 2: 8, 3: 9, 4: 10, 5: 11}),
    ("last", 12, 4, {1: 9, 2: 10, 3: 11}),
    ("last", 12, 3, {1: 10, 2: 11}),
    ("last", 24, 6, {1: 19, 2: 20, 3: 21, 4: 22, 5: 23}),
    ("last", 6, 4, {1: 3, 2: 4, 3: 5}),
    # Pairs of a user's own: sorted, of NumPy's integers too, and of a student
    # that is deeper than its teacher.
    ({2: 12, 1: 3}, 12, 4, {1: 3, 2: 12}),
    ({np.int64(1): np.int32(3)}, 12, 4, {1: 3}),
    ({1: 1, 4: 2}, 2, 4, {1: 1, 4: 2}),
]
NAMES = ("uniform", "spread", "top", "bottom", "skip", "last", "final")
TEACHER_DEPTHS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 24)
STUDENT_DEPTHS = (1, 2, 3, 4, 5, 6, 7, 10, 12, 13)


@pytest.mark.parametrize(("spec", "teacher", "student", "expected"), TABLE)
def test_layer_map_is_the_papers(spec, teacher, student, expected):
    pairs = kdkit.layer_map(spec, teacher, student)
    assert list(pairs.items()) == list(expected.items())
    assert all(type(block) is int for pair in pairs.items() for block in pair)


@pytest.mark.parametrize("name", NAMES[:-1])
def test_layer_map_increases_strictly_at_all_depths(name):
    leaves_final_out = name in ("skip", "last")
    for teacher in range(1, 25):
        for student in range(1 + leaves_final_out, teacher + 1):
            pairs = kdkit.layer_map(name, teacher, student)
            blocks = list(pairs.values())
            assert list(pairs) == list(range(1, student + 1 - leaves_final_out))
            assert blocks == sorted(set(blocks))
            assert blocks[0] >= 1
            assert blocks[-1] <= teacher
            if name in ("uniform", "spread", "top"):
                assert blocks[-1] == teacher


@pytest.mark.parametrize(
    ("spec", "teacher", "student", "named"),
    [
        ("every_other", 12, 4, "'every_other'"),
        ("uniform", 4, 6, "deeper"),
        ("skip", 12, 1, "no pair"),
        ({}, 12, 4, "no pair"),
        ({5: 1}, 12, 4, "5"),
        ({1: 13}, 12, 4, "13"),
        ({0: 0}, 12, 4, "0"),
        ({1: 2.5}, 12, 4, "2.5"),
    ],
)
def test_layer_map_refuses_bad_use(spec, teacher, student, named):
    with pytest.raises(ValueError, match=named):
        kdkit.layer_map(spec, teacher, student)


def pairs_or_error(spec, teacher, student):
    try:
        return kdkit.layer_map(spec, teacher, student)
    except ValueError:
        return "ValueError"


@pytest.mark.parametrize("name", NAMES)
def test_layer_maps_are_the_golden_ones(name):
    found = {}
    for teacher in TEACHER_DEPTHS:
        for student in STUDENT_DEPTHS:
            pairs = pairs_or_error(name, teacher, student)
            if isinstance(pairs, dict):
                pairs = " ".join(f"{m}:{g}" for m, g in pairs.items())
            found[f"{teacher} to {student}"] = pairs
    goldens.check("layer_maps", name, found)


def test_explicit_layer_maps_are_the_golden_ones():
    found = {}
    for pairs in ({2: 5, 1: 1}, {1: 3}, {0: 1}, {1: 9}, {3: 1}, {}):
        made = pairs_or_error(pairs, 6, 2)
        if isinstance(made, dict):
            made = {str(one): made[one] for one in made}
        found[str(pairs)] = made
    goldens.check("layer_maps", "explicit", found)
