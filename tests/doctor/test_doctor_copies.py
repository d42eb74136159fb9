"""The check of augmented copies, on data with exactly that problem."""

import pytest

from kdkit import doctor
from kdkit.doctor import OK, RUINS, WARNING

TRAIN = [(f"row number {number}",) for number in range(100)]
DEV = [(f"other row {number}",) for number in range(50)]
CHINESE = [("今天天气很好我们去公园玩",), ("iphone这部电影非常无聊 没有意思",)]


def test_copies_of_their_rows_are_fine():
    copies = [(number, ("row count",)) for number in range(100)]
    first, second = doctor.augmented_copies(copies, TRAIN, set())
    assert (first.outcome, second.outcome) == (OK, OK)


def test_copies_of_other_rows_ruin_the_run():
    """Of a file that was made from other training data."""
    copies = [(number, DEV[number]) for number in range(50)]
    train = [(f"une phrase {number + 1000}",) for number in range(50)]
    _, finding = doctor.augmented_copies(copies, train, set())
    assert finding.outcome == RUINS
    assert "0 % of their source rows' words" in finding.found


def test_copies_that_stand_in_dev_are_counted():
    copies = [(0, TRAIN[0]), (0, DEV[0]), (1, TRAIN[1])]
    finding, _ = doctor.augmented_copies(copies, TRAIN, set(DEV))
    assert finding.outcome == WARNING
    assert "1 of 3 copies (33.3 %)" in finding.found


@pytest.mark.parametrize(
    ("number", "copy"),
    [
        (0, "今天天气很坏我们去公园玩"),
        (0, "昨天天气不错我们去公园玩"),
        (1, "iphone这部电影非常有趣 没有意思"),
    ],
)
def test_copies_of_texts_without_blanks_are_compared_by_signs(number, copy):
    _, finding = doctor.augmented_copies([(number, (copy,))], CHINESE, set())
    assert finding.outcome == OK
    other = [(number, CHINESE[1 - number])]
    _, finding = doctor.augmented_copies(other, CHINESE, set())
    assert finding.outcome == RUINS
    assert "0 % of their source rows' words" in finding.found
