"""Layer maps: the papers' tables, and properties at all depths."""

import numpy as np
import pytest

import kdkit
from kdkit.distillation.layer_maps import NAMES

EVEN_12_TO_5 = {1: 2, 2: 5, 3: 7, 4: 10, 5: 12}  # nearest to 2.4, 4.8, …

TABLE = [
    # TinyBERT, g(m) = m N / M
    ("uniform", 12, 6, {1: 2, 2: 4, 3: 6, 4: 8, 5: 10, 6: 12}),
    ("uniform", 12, 4, {1: 3, 2: 6, 3: 9, 4: 12}),
    ("uniform", 12, 3, {1: 4, 2: 8, 3: 12}),
    ("uniform", 24, 6, {1: 4, 2: 8, 3: 12, 4: 16, 5: 20, 6: 24}),
    ("uniform", 6, 4, {1: 2, 2: 3, 3: 5, 4: 6}),  # nearest to 1.5, 3, 4.5, 6
    ("uniform", 12, 5, EVEN_12_TO_5),
    ("uniform", 12, 1, {1: 12}),
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
]


@pytest.mark.parametrize(("name", "teacher", "student", "expected"), TABLE)
def test_layer_map_is_the_papers(name, teacher, student, expected):
    assert kdkit.layer_map(name, teacher, student) == expected


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"final"}))
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
            if name in ("uniform", "top"):
                assert blocks[-1] == teacher


def test_explicit_map_is_returned_in_order_of_student_blocks():
    pairs = kdkit.layer_map({2: 12, 1: 3}, 12, 4)
    assert list(pairs.items()) == [(1, 3), (2, 12)]


def test_explicit_map_takes_numpy_integers():
    pairs = kdkit.layer_map({np.int64(1): np.int32(3)}, 12, 4)
    assert pairs == {1: 3}
    assert all(type(block) is int for pair in pairs.items() for block in pair)


def test_explicit_map_reaches_students_deeper_than_the_teacher():
    assert kdkit.layer_map({1: 1, 4: 2}, 2, 4) == {1: 1, 4: 2}


@pytest.mark.parametrize(
    ("spec", "teacher", "student", "message"),
    [
        ("every_other", 12, 4, "Unknown layer map 'every_other'"),
        ("uniform", 4, 6, "no deeper than its teacher"),
        ("skip", 12, 1, "no pair"),
        ({}, 12, 4, "no pair"),
        ({5: 1}, 12, 4, "out of range"),
        ({1: 13}, 12, 4, "out of range"),
        ({0: 0}, 12, 4, "out of range"),
        ({1: 2.5}, 12, 4, "out of range"),
    ],
)
def test_layer_map_refuses_bad_use(spec, teacher, student, message):
    with pytest.raises(ValueError, match=message):
        kdkit.layer_map(spec, teacher, student)
