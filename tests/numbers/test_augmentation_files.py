"""Augmented files: their content, resuming, and nothing lost."""

import pytest

from kdkit.augmentation import (
    join_parts,
    part_path,
    require_fingerprint,
    write_augmented,
)
from kdkit.data import Examples

PAIRS = Examples((["a b", "c\td", "e"], ["f", "g", "h"]))
# Three steps of at most 1,024 rows.
MANY = Examples(tuple([f"{name} {n}" for n in range(2100)] for name in "ab"))
MADE = {"seed": 0}


class FakeAugmenter:
    """Two copies of each text, except of "e"; may stop after some calls."""

    def __init__(self, calls=None):
        self.left = calls

    def __call__(self, texts, first_row, column):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        # The second shows which texts were read together: a model gives a text
        # other last bits, and so another 15th word, beside other texts.
        return [
            [f"{text}{first_row + number}{column}x", f"{text}y{len(texts)}"]
            if text != "e"
            else []
            for number, text in enumerate(texts)
        ]


def write(path, examples=MANY, calls=None, made=MADE, **options):
    columns = ("first", "second")
    return write_augmented(
        examples, FakeAugmenter(calls), path, columns, made, **options
    )


def stop(path, calls, **options):
    with pytest.raises(KeyboardInterrupt):
        write(path, calls=calls, **options)


def rows(path):
    head, *lines = path.read_text().splitlines()
    assert head == "source_row\tcolumn\tcopy\tfirst\tsecond"
    return [tuple(line.split("\t")) for line in lines]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.tsv"


def test_each_text_of_a_pair_is_changed_beside_the_other(path):
    progress = write(path, PAIRS)
    assert rows(path) == [
        ("0", "0", "1", "a b00x", "f"),
        ("0", "0", "2", "a by3", "f"),
        ("0", "1", "1", "a b", "f01x"),
        ("0", "1", "2", "a b", "fy3"),
        ("1", "0", "1", "c d10x", "g"),
        ("1", "0", "2", "c dy3", "g"),
        ("1", "1", "1", "c d", "g11x"),
        ("1", "1", "2", "c d", "gy3"),
        ("2", "1", "1", "e", "h21x"),
        ("2", "1", "2", "e", "hy3"),
    ]
    assert (progress.rows, progress.copies) == (3, 10)


def test_authors_code_keeps_the_last_copy_of_the_first_text(path):
    write(path, PAIRS, in_place=True)
    found = rows(path)
    assert found[2] == ("0", "1", "1", "a by3", "f01x")
    assert found[-1] == ("2", "1", "2", "e", "hy3")


def test_a_stopped_file_goes_on_to_the_same_bytes(path, tmp_path):
    whole = tmp_path / "whole.tsv"
    write(whole)
    for calls in (1, 3):
        stop(path, calls)
        assert not path.exists()
    # What was written after the last step was noted does not count.
    with open(tmp_path / ".out.tsv.part", "ab") as file:
        file.write(b"half a li")
    write(path)
    assert path.read_bytes() == whole.read_bytes()
    assert sorted(item.name for item in tmp_path.iterdir()) == [
        "out.tsv", "out.tsv.json", "whole.tsv", "whole.tsv.json"
    ]  # fmt: skip


def test_a_flipped_bit_in_what_was_begun_is_named(path, tmp_path):
    stop(path, 3)
    begun = tmp_path / ".out.tsv.part"
    right = begun.read_bytes()
    begun.write_bytes(right[:-3] + bytes([right[-3] ^ 1]) + right[-2:])
    with pytest.raises(ValueError, match="out.tsv.part"):
        write(path)
    assert not path.exists()
    begun.write_bytes(right)
    write(path)
    assert require_fingerprint(path, MANY, MADE)


def test_a_file_whose_note_alone_got_its_name_gets_its_own(path, tmp_path):
    """What a process leaves that dies between the two renames."""
    write(path)
    right, begun = path.read_bytes(), tmp_path / ".out.tsv.part"
    path.rename(begun)
    write(path, calls=0)
    assert path.read_bytes() == right
    path.rename(begun)
    begun.write_bytes(b"something else")
    write(path)
    assert path.read_bytes() == right


def test_other_settings_do_not_go_on_with_it(path):
    stop(path, 3)
    with pytest.raises(ValueError, match="seed was 0, is 1"):
        write(path, made={"seed": 1})


def test_a_file_that_is_there_is_not_written_over(path):
    path.write_text("mine")
    with pytest.raises(ValueError, match=path.name):
        write(path)
    assert path.read_text() == "mine"


def test_a_note_says_what_a_file_was_made_from(path):
    write(path, PAIRS)
    assert require_fingerprint(path, PAIRS, MADE)
    assert require_fingerprint(path, PAIRS, {})
    with pytest.raises(ValueError, match="seed was 0, is 1"):
        require_fingerprint(path, PAIRS, {"seed": 1})
    with pytest.raises(ValueError, match="texts has changed"):
        require_fingerprint(path, PAIRS.take([0, 1]), MADE)
    path.write_text(path.read_text().replace("dy", "dz"))
    with pytest.raises(ValueError, match="changed since"):
        require_fingerprint(path, PAIRS, MADE)


def test_a_file_without_a_note_is_taken_as_it_is(path):
    path.write_text("source_row\tcolumn\tcopy\tfirst\tsecond\n")
    assert not require_fingerprint(path, PAIRS, {})
    with pytest.raises(ValueError, match=r"out\.tsv\.json"):
        require_fingerprint(path, PAIRS, MADE)


@pytest.mark.parametrize("count", [2, 4])
def test_parts_of_several_processes_are_what_one_writes(tmp_path, path, count):
    """Also where a part has no rows, and where one was stopped."""
    one = tmp_path / "one.tsv"
    write(one)
    assert join_parts(MANY, path, MADE) is None
    assert join_parts(MANY, tmp_path / "new" / "file", {}) is None
    stop(path, 1, part=(count - 1, count))
    for which in reversed(range(count)):
        if which == 0:
            with pytest.raises(ValueError, match=f"part_1_of_{count}"):
                join_parts(MANY, path, MADE)
        write(path, part=(which, count))
    with pytest.raises(ValueError, match="seed was 0, is 1"):
        join_parts(MANY, path, {"seed": 1})
    join_parts(MANY, path, MADE)
    assert path.read_bytes() == one.read_bytes()
    assert require_fingerprint(path, MANY, MADE)
    assert not part_path(path, (0, count)).exists()
