"""Augmented files: their content, resuming, and nothing lost."""

import pytest

from kdkit.augmentation import write_augmented
from kdkit.data import Examples
from kdkit.data.augmented import require_made_from

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
    note, head, *lines = path.read_text().splitlines()
    assert note.startswith("# {")
    assert head == "source_row\tcolumn\tcopy\tfirst\tsecond"
    return [tuple(line.split("\t")) for line in lines]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.tsv"


def test_each_text_of_a_pair_is_changed_beside_the_other(path):
    copies = write(path, PAIRS)
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
    assert copies == 10


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
    # Other settings begin again, and what was made with these is not lost.
    write(tmp_path / "other.tsv", made={"seed": 1})
    stop(path, 3, made={"seed": 1})
    write(path, calls=4)
    assert path.read_bytes() == whole.read_bytes()
    left = {item.name.split("-")[0] for item in tmp_path.iterdir()}
    assert left == {"out.tsv", "whole.tsv", "other.tsv", ".out.tsv.steps"}
    path.unlink()
    write(path, calls=4, made={"seed": 1})
    assert path.read_bytes() == (tmp_path / "other.tsv").read_bytes()


def test_a_file_that_is_there_is_not_written_over(path):
    path.write_text("mine")
    with pytest.raises(ValueError, match=path.name):
        write(path)
    assert path.read_text() == "mine"


def test_a_file_contains_what_it_was_made_from(path):
    write(path, PAIRS)
    require_made_from(path, PAIRS, MADE)
    require_made_from(path, PAIRS)
    with pytest.raises(ValueError, match="seed was 0, is 1"):
        require_made_from(path, PAIRS, {"seed": 1})
    with pytest.raises(ValueError, match="texts has changed"):
        require_made_from(path, PAIRS.take([0, 1]))
    path.write_text(path.read_text().replace("dy", "dz"))
    with pytest.raises(ValueError, match="copies has changed"):
        require_made_from(path, PAIRS)


def test_a_file_of_another_program_is_taken_as_it_is(path):
    path.write_text("source_row\tcolumn\tcopy\tfirst\tsecond\n")
    require_made_from(path, PAIRS)
    with pytest.raises(ValueError, match="does not contain how"):
        require_made_from(path, PAIRS, MADE)


@pytest.mark.parametrize("count", [2, 4])
def test_parts_of_several_processes_are_what_one_writes(tmp_path, path, count):
    """Also where a part has no rows, where one was stopped or is missing."""
    one = tmp_path / "one.tsv"
    write(one)
    stop(path, 1, part=(0, count))
    for which in range(1, count):
        write(path, part=(which, count))
    assert not path.exists()
    write(path, calls=4)
    assert path.read_bytes() == one.read_bytes()
    assert {item.name for item in tmp_path.iterdir()} == {"out.tsv", "one.tsv"}
