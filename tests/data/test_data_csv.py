"""Files that a CSV writer wrote, and other mistakes in users' tables."""

import csv
import io

import numpy as np
import pytest

from kdkit import data, doctor
from kdkit.data.examples import csv_separator, is_csv_quoted, without_blank_end
from kdkit.errors import UsageError
from kdkit.tasks import get_task

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


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
def test_the_doctor_counts_the_texts_that_a_csv_writer_quoted(
    quoting, tmp_path
):
    """Some of them, and all of them."""
    table = "text\tlabel\n"
    for text, label in ROWS:
        table += as_csv([(text,)], delimiter="\t", quoting=quoting)[:-1]
        table += f"\t{label}\n"
    write_own(tmp_path, table)
    train = doctor.row_texts(load(tmp_path))
    finding = doctor.odd_texts({"train": train, "dev": train[:1]})
    assert finding.outcome == doctor.WARNING
    count = 60 if quoting == csv.QUOTE_NONNUMERIC else 40
    assert f"in {count} of 60 rows of train" in finding.found
    assert "quoting=csv.QUOTE_NONE" in finding.advice


def test_one_text_that_a_csv_writer_quoted_is_reported_in_a_small_split():
    rows = [("a fine film",), ('"he said ""no"""',)]
    finding = doctor.odd_texts({"dev": rows})
    assert finding.outcome == doctor.WARNING
    assert "in 1 of 2 rows of dev (50.0 %)" in finding.found
    assert '"he said ""no"""' in finding.found


def test_a_table_written_as_the_advice_says_is_read_unchanged(tmp_path):
    text = as_csv(
        [("text", "label"), *ROWS],
        delimiter="\t",
        quoting=csv.QUOTE_NONE,
        quotechar=None,
    )
    write_own(tmp_path, text)
    read = load(tmp_path)
    assert read.texts[0] == [text for text, _ in ROWS]
    assert doctor.odd_texts({"train": doctor.row_texts(read)}) is None


@pytest.mark.parametrize("name", ["sst2", "mrpc", "cola", "rte", "stsb"])
def test_no_text_of_glue_is_taken_for_a_csv_writers(name, data_dir):
    task = get_task(name)
    rows = {
        split: doctor.row_texts(task.load(split, data_dir / "glue"))
        for split in ("train", "dev")
    }
    assert doctor.odd_texts(rows) is None


def test_no_plain_text_is_taken_for_a_csv_file(data_dir):
    for file in ("multi30k/train.en", "ptb/ptb.valid.txt", "wikitext2/README"):
        lines = (data_dir / file).read_text().splitlines()[:1000]
        assert csv_separator(lines) is None


@pytest.mark.parametrize("break_", ["\t", "\n"])
def test_quoted_breaks_within_texts_are_explained(break_, tmp_path):
    rows = [("text", "label"), (f"two{break_}parts", "good"), ("one", "bad")]
    path = write_own(tmp_path, as_csv(rows, delimiter="\t"))
    with pytest.raises(UsageError) as raised:
        load(tmp_path)
    assert f"{path}, line 2: expected 2 columns" in str(raised.value)
    assert "A CSV writer quoted texts with tabs or line breaks" in (
        str(raised.value)
    )
    assert "--train, --text-column and --label-column" in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "separated by commas, as"),
        ({"delimiter": ";"}, "separated by semicolons, as"),
        ({"quoting": csv.QUOTE_ALL}, "separated by commas and quoted, as"),
        (
            {"delimiter": "\t", "quoting": csv.QUOTE_ALL},
            "separated by tabs and quoted, as",
        ),
    ],
)
def test_the_header_of_a_csv_file_is_recognised(settings, said, tmp_path):
    write_own(tmp_path, as_csv([("text", "label"), *ROWS], **settings))
    with pytest.raises(UsageError) as raised:
        load(tmp_path)
    assert "line 1: expected a header with 'text', 'label'" in str(raised.value)
    assert said in str(raised.value)
    assert "--train, --text-column and --label-column" in str(raised.value)


def test_a_csv_file_next_to_a_missing_table_is_named(tmp_path):
    path = write_own(tmp_path, "text,label\n")
    path.rename(path.with_suffix(".csv"))
    (path.parent / "dev.tsv.gz").write_bytes(b"")
    with pytest.raises(UsageError) as raised:
        LAYOUT.require(["train", "dev", "test"], tmp_path)
    train, dev, test = str(raised.value).splitlines()[1:4]
    assert train == f"  {path}. Next to it is train.csv"
    assert dev.endswith("dev.tsv. Next to it is dev.tsv.gz")
    assert test.endswith("test.tsv")


def test_files_that_belong_together_are_not_named_in_their_places(tmp_path):
    (tmp_path / "polyphone").mkdir()
    (tmp_path / "polyphone" / "train.sent").write_text("a▁b▁\n")
    with pytest.raises(UsageError) as raised:
        get_task("polyphone").for_data(tmp_path)
    assert "train.lb" in str(raised.value)
    assert "Next to it" not in str(raised.value)


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


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("reviews.csv", CSV, "a CSV file"),
        ("reviews.txt", CSV, "a CSV file"),
        ("reviews.txt", CSV.replace('"', ""), "a CSV file"),
        ("reviews.txt", as_csv(ROWS, delimiter=";"), "a CSV file"),
        ("reviews.csv", "text\nfine\n", "a CSV file"),
        ("reviews.tsv", "text\na fine film\n", "a table of one column"),
        ("reviews.tsv", "text\tlabel\nfine\t1\n", "a table"),
    ],
)
def test_a_table_in_the_place_of_lines_of_text_is_refused(
    name, text, said, tmp_path
):
    file = tmp_path / name
    file.write_text(text)
    for read, option in (
        (lambda: data.read_unlabeled([file], (), 1), "--unlabeled-columns"),
        (data.Corpus((str(file),)).check, "--column"),
        (data.ParallelText((str(file),) * 2).check, "--pair-columns"),
    ):
        with pytest.raises(UsageError) as raised:
            read()
        assert f"{file}: expected one text per line" in str(raised.value)
        assert said in str(raised.value)
        assert option in str(raised.value)


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


def test_a_label_set_of_one_label_is_refused(tmp_path):
    path = write_own(tmp_path, "text\tlabel\nfine\tgood\n", "good\n\n")
    with pytest.raises(UsageError) as raised:
        load(tmp_path)
    assert f"{path.with_name('labels.txt')}: expected at least 2 labels" in (
        str(raised.value)
    )
    assert "Received: 'good' alone" in str(raised.value)


def test_a_multi_label_table_may_have_one_label(tmp_path):
    folder = tmp_path / "multi_label"
    folder.mkdir()
    (folder / "labels.txt").write_text("joy\n")
    (folder / "train.tsv").write_text("text\tlabels\na\tjoy\nb\t\n")
    labels = get_task("multi_label").load("train", tmp_path).labels
    np.testing.assert_array_equal(labels, [[1], [0]])


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ("bad\t120\ngood\t80\n", "labels.txt, line 1: expected a label alone"),
        ("0\tbad\n1\tgood\n", "labels.txt, line 1: expected a label alone"),
        ("bad 120\ngood 80\n", "line 'good 80'. If its label is 'good'"),
        ("0: bad\n1: good\n", "has the line '1: good'. If its label is 'good'"),
        ('"bad"\n"good"\n', "has the line '\"good\"'. If its label is 'good'"),
    ],
)
def test_counts_and_numbers_next_to_labels_are_named(labels, said, tmp_path):
    write_own(tmp_path, "text\tlabel\nfine\tgood\n", labels)
    with pytest.raises(UsageError) as raised:
        load(tmp_path)
    assert said in str(raised.value)


def test_a_table_that_is_not_in_its_folder_is_found(tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabel\nfine\tgood\n")
    with pytest.raises(UsageError) as raised:
        LAYOUT.for_data(tmp_path)
    place = tmp_path / LAYOUT.folder
    assert f"Missing data file: {place / 'labels.txt'}" in str(raised.value)
    assert f"Move its files to {place}." in str(raised.value)


def test_labels_may_have_numbers_and_spaces_in_them(tmp_path):
    write_own(tmp_path, "text\tlabel\na\tclass 2\n", "class 1\nclass 2\n")
    assert load(tmp_path).labels.tolist() == [1]
