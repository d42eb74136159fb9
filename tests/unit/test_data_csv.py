"""Files that a CSV writer wrote, and other mistakes in users' tables."""

import csv
import io

import pytest

from kdkit import data
from kdkit.data.examples import is_csv_quoted, without_blank_end
from kdkit.errors import UsageError

SAID = 'he said "no"'
ROWS = [(f"{SAID} {n}" if n % 3 else f"row {n}", "bad") for n in range(60)]


def as_csv(rows, **settings):
    """What a CSV writer makes of rows."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n", **settings).writerows(rows)
    return file.getvalue()


LAYOUT = data.TableLayout(
    folder="own",
    text_columns=("text",),
    label_column="label",
    reads_label_set=True,
)


def write_own(root, text, labels="bad\ngood\n", split="train"):
    """A split of a layout with its label set."""
    folder = root / LAYOUT.folder
    folder.mkdir(exist_ok=True)
    (folder / "labels.txt").write_text(labels)
    (folder / f"{split}.tsv").write_text(text)
    return folder / f"{split}.tsv"


def load(root):
    return LAYOUT.for_data(root).read("train", root)


@pytest.mark.parametrize("text", [SAID, '"', '"a" and "b"', 'a "', '" a'])
def test_what_a_csv_writer_quotes_is_recognised(text):
    (line,) = as_csv([(text,)], delimiter="\t").splitlines()
    assert is_csv_quoted(line)
    assert not is_csv_quoted(text)


@pytest.mark.parametrize(
    "text",
    ["", '"', '""', '"all of it"', '" no , " he said , " no . "', 'an "a" b'],
)
def test_plain_quotes_are_not_taken_for_those_of_a_csv_writer(text):
    assert not is_csv_quoted(text)


def test_blank_lines_at_the_end_of_a_table_are_passed_over(tmp_path):
    table = "text\tlabel\na fine film\tgood\n"
    path = write_own(tmp_path, f"{table}\n  \n\t\n\n")
    assert load(tmp_path).texts == (["a fine film"],)
    path.write_text(f"{table}\n{table.splitlines()[1]}\n")
    with pytest.raises(UsageError, match="line 3: expected 2 columns"):
        load(tmp_path)


def test_blank_lines_at_the_end_of_other_files_are_passed_over(tmp_path):
    table = tmp_path / "table.tsv"
    table.write_text("id\ten\tde\n1\ta\tb\n\n\n")
    corpus = data.Corpus((str(table),), "de")
    assert list(corpus.texts()) == ["b"]
    pairs = data.ParallelText((str(table),), ("en", "de"))
    assert list(pairs.pairs()) == [("a", "b")]
    assert data.read_unlabeled([table], ("en",), 1).texts == (["a"],)
    lines = [tmp_path / name for name in ("a.txt", "b.txt")]
    lines[0].write_text("one\ntwo\n\n")
    lines[1].write_text("eins\nzwei")
    pairs = list(data.ParallelText(tuple(map(str, lines))).pairs())
    assert pairs == [("one", "eins"), ("two", "zwei")]


def test_many_blank_lines_are_held_in_bounded_memory():
    blank = ((number, "") for number in range(10_000))
    assert len(list(without_blank_end(blank))) == 9009  # 9 times 1,001


CSV = as_csv([("review", "label"), *ROWS])


def test_the_columns_of_a_csv_file_are_read(tmp_path):
    file = tmp_path / "reviews.csv"
    file.write_text(CSV)
    texts, labels = map(list, zip(*ROWS, strict=True))
    unlabeled = data.read_unlabeled([file], ("review",), 1)
    assert unlabeled.texts == (texts,)
    assert list(data.Corpus((str(file),), "review").texts()) == texts
    pairs = data.ParallelText((str(file),), ("review", "label"))
    assert list(pairs.pairs()) == list(zip(texts, labels, strict=True))


def test_a_table_with_tabs_may_be_named_csv(tmp_path):
    file = tmp_path / "reviews.csv"
    file.write_text("review\tlabel\nfine, thanks\t1\n")
    read = data.read_unlabeled([file], ("review",), 1)
    assert read.texts == (["fine, thanks"],)


def test_plain_text_with_commas_and_quotes_is_read(tmp_path):
    lines = ['"Fine, thanks," he said.', "Dull, they said, and long", "Good"]
    file = tmp_path / "reviews.txt"
    file.write_text("\n".join(lines))
    assert data.read_unlabeled([file], (), 1).texts == (lines,)
