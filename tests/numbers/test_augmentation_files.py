"""Augmented files: their content, resuming, and nothing lost."""

import pytest

from kdkit.augmentation import (
    files,
    join_parts,
    part_path,
    require_fingerprint,
    write_augmented,
)
from kdkit.data import Examples
from kdkit.errors import UsageError

PAIRS = Examples((["a b", "c\td", "e"], ["f", "g", "h"]))


class FakeAugmenter:
    """Two copies of each text, except of "e"; may stop after some steps."""

    def __init__(self, steps=None, error=KeyboardInterrupt):
        self.steps = steps
        self.error = error

    def __call__(self, texts, first_row, column):
        if self.steps is not None:
            self.steps -= 1
            if self.steps < 0:
                raise self.error
        return [
            [f"{text}{first_row + number}{column}x", f"{text}y"]
            if text != "e"
            else []
            for number, text in enumerate(texts)
        ]


@pytest.fixture(autouse=True)
def _one_row_a_step(monkeypatch):
    monkeypatch.setattr(files, "ROWS_PER_STEP", 1)


def write(path, augmenter=None, **settings):
    return write_augmented(
        PAIRS,
        augmenter or FakeAugmenter(),
        path,
        ("first", "second"),
        {"seed": 0},
        **settings,
    )


def rows(path):
    head, *lines = path.read_text().splitlines()
    assert head == "source_row\tcolumn\tcopy\tfirst\tsecond"
    return [tuple(line.split("\t")) for line in lines]


def test_each_text_of_a_pair_is_changed_beside_the_other(tmp_path):
    progress = write(tmp_path / "out.tsv")
    assert rows(tmp_path / "out.tsv") == [
        ("0", "0", "1", "a b00x", "f"),
        ("0", "0", "2", "a by", "f"),
        ("0", "1", "1", "a b", "f01x"),
        ("0", "1", "2", "a b", "fy"),
        ("1", "0", "1", "c d10x", "g"),
        ("1", "0", "2", "c dy", "g"),
        ("1", "1", "1", "c d", "g11x"),
        ("1", "1", "2", "c d", "gy"),
        ("2", "1", "1", "e", "h21x"),
        ("2", "1", "2", "e", "hy"),
    ]
    assert (progress.rows, progress.copies) == (3, 10)


def test_authors_code_keeps_the_last_copy_of_the_first_text(tmp_path):
    write(tmp_path / "out.tsv", in_place=True)
    found = rows(tmp_path / "out.tsv")
    assert found[2] == ("0", "1", "1", "a by", "f01x")
    assert found[-1] == ("2", "1", "2", "e", "hy")


def test_a_stopped_file_goes_on_to_the_same_bytes(tmp_path):
    write(tmp_path / "whole.tsv")
    path = tmp_path / "stopped.tsv"
    for steps in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            write(path, FakeAugmenter(steps))
        assert not path.exists()
    # What was written after the last step was noted does not count.
    with open(tmp_path / ".stopped.tsv.part", "ab") as file:
        file.write(b"half a li")
    write(path)
    assert path.read_bytes() == (tmp_path / "whole.tsv").read_bytes()
    assert sorted(item.name for item in tmp_path.iterdir()) == [
        "stopped.tsv", "stopped.tsv.json", "whole.tsv", "whole.tsv.json"
    ]  # fmt: skip


def test_a_flipped_bit_in_what_was_begun_is_named(tmp_path):
    path, begun = tmp_path / "out.tsv", tmp_path / ".out.tsv.part"
    with pytest.raises(KeyboardInterrupt):
        write(path, FakeAugmenter(3))
    right = begun.read_bytes()
    begun.write_bytes(right[:-3] + bytes([right[-3] ^ 1]) + right[-2:])
    with pytest.raises(UsageError, match=r"out.tsv.part has changed"):
        write(path)
    assert not path.exists()
    begun.write_bytes(right)
    write(path)
    assert require_fingerprint(path, PAIRS, {"seed": 0})


def test_a_file_whose_note_alone_got_its_name_gets_its_own(tmp_path):
    """What a process leaves that dies between the two renames."""
    path, begun = tmp_path / "out.tsv", tmp_path / ".out.tsv.part"
    write(path)
    right = path.read_bytes()
    path.rename(begun)
    write(path, FakeAugmenter(0))
    assert path.read_bytes() == right
    path.rename(begun)
    begun.write_bytes(b"something else")
    write(path)
    assert path.read_bytes() == right


def test_other_settings_do_not_go_on_with_it(tmp_path):
    path = tmp_path / "out.tsv"
    with pytest.raises(KeyboardInterrupt):
        write(path, FakeAugmenter(3))
    with pytest.raises(UsageError, match="seed was 0, is 1"):
        write_augmented(
            PAIRS, FakeAugmenter(), path, ("first", "second"), {"seed": 1}
        )


def test_a_file_that_is_there_is_not_written_over(tmp_path):
    path = tmp_path / "out.tsv"
    path.write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        write(path)
    assert path.read_text() == "mine"


def test_a_note_says_what_a_file_was_made_from(tmp_path):
    path = tmp_path / "out.tsv"
    write(path)
    assert require_fingerprint(path, PAIRS, {"seed": 0})
    assert require_fingerprint(path, PAIRS, {})
    with pytest.raises(UsageError, match="seed was 0, is 1"):
        require_fingerprint(path, PAIRS, {"seed": 1})
    with pytest.raises(UsageError, match="content of the texts has changed"):
        require_fingerprint(path, PAIRS.take([0, 1]), {"seed": 0})
    path.write_text(path.read_text().replace("dy", "dz"))
    with pytest.raises(UsageError, match="has changed since it was made"):
        require_fingerprint(path, PAIRS, {"seed": 0})


def test_a_file_without_a_note_is_taken_as_it_is(tmp_path):
    path = tmp_path / "out.tsv"
    path.write_text("source_row\tcolumn\tcopy\tfirst\tsecond\n")
    assert not require_fingerprint(path, PAIRS, {})
    with pytest.raises(UsageError, match="no out.tsv.json"):
        require_fingerprint(path, PAIRS, {"seed": 0})


@pytest.mark.parametrize("count", [2, 4])
def test_parts_of_several_processes_are_what_one_writes(tmp_path, count):
    """Also where a part has no rows, and where one was stopped."""
    one, joined = tmp_path / "one.tsv", tmp_path / "joined.tsv"
    write(one)
    assert join_parts(PAIRS, joined, {"seed": 0}) is None
    assert join_parts(PAIRS, tmp_path / "new" / "file", {}) is None
    with pytest.raises(KeyboardInterrupt):
        write(joined, FakeAugmenter(steps=1), part=(count - 1, count))
    for which in reversed(range(count)):
        if which == 0:
            with pytest.raises(UsageError, match=f"part_1_of_{count}"):
                join_parts(PAIRS, joined, {"seed": 0})
        write(joined, part=(which, count))
    join_parts(PAIRS, joined, {"seed": 0})
    assert joined.read_bytes() == one.read_bytes()
    assert require_fingerprint(joined, PAIRS, {"seed": 0})
    assert not part_path(joined, (0, count)).exists()


class Gossip:
    """Copies that show which texts were read together."""

    def __call__(self, texts, first_row, column):
        return [[f"{text} {first_row} {len(texts)}"] for text in texts]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_texts_are_read_with_the_same_others_in_parts(
    tmp_path, monkeypatch, count
):
    # A model gives a text other last bits, and so another 15th word, beside
    # other texts.
    monkeypatch.setattr(files, "ROWS_PER_STEP", 4)
    examples = Examples(([f"text {number}" for number in range(14)],))

    def write(path, part=None):
        write_augmented(
            examples, Gossip(), path, ("sentence",), {"seed": 0}, part=part
        )

    one, joined = tmp_path / "one.tsv", tmp_path / "joined.tsv"
    write(one)
    for which in range(count):
        write(joined, (which, count))
    join_parts(examples, joined, {"seed": 0})
    assert joined.read_bytes() == one.read_bytes()


def test_parts_of_other_rows_are_not_joined(tmp_path, monkeypatch):
    path = tmp_path / "joined.tsv"
    write(path, part=(0, 2))
    monkeypatch.setattr(files, "ROWS_PER_STEP", 2)
    write(path, part=(1, 2))
    with pytest.raises(UsageError, match=r"rows was \[0, 1\], is \[0, 2\]"):
        join_parts(PAIRS, path, {"seed": 0})


def test_parts_made_otherwise_are_not_joined(tmp_path):
    path = tmp_path / "joined.tsv"
    for which in range(2):
        write(path, part=(which, 2))
    with pytest.raises(UsageError, match="seed was 0, is 1"):
        join_parts(PAIRS, path, {"seed": 1})
