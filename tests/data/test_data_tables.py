"""Reading tab-separated files."""

import numpy as np
import pytest

from kdkit.data import Examples, TableLayout, read_table
from kdkit.data.table_layouts import require_tables
from kdkit.errors import UsageError

SENTENCES = TableLayout(
    folder="Films",
    text_columns=("sentence",),
    label_column="label",
    label_words=("bad", "good"),
)
PAIRS = TableLayout(
    folder="Pairs",
    text_columns=("second", "first"),
    label_column="score",
    label_words=None,
)


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="train.tsv"):
        path = tmp_path / name
        if isinstance(content, str):
            content = content.encode("utf-8")
        path.write_bytes(content)
        return path

    return write_file


def test_read_table_returns_texts_and_class_numbers(write):
    path = write("sentence\tlabel\na fine film \tgood\nso dull\tbad\n")
    examples = read_table(path, SENTENCES)
    assert examples.texts == (["a fine film", "so dull"],)
    np.testing.assert_array_equal(examples.labels, [1, 0])
    assert examples.labels.dtype == np.int32


def test_read_table_finds_columns_by_heading(write):
    path = write("first\tscore\tsecond\na\t2.5\tb\nc\t0\td\n")
    examples = read_table(path, PAIRS)
    assert examples.texts == (["b", "d"], ["a", "c"])
    np.testing.assert_array_equal(examples.labels, [2.5, 0.0])
    assert examples.labels.dtype == np.float32


def test_read_table_reads_columns_by_index_without_header(write):
    layout = TableLayout(
        folder="Plain",
        text_columns=(2,),
        label_column=0,
        label_words=("0", "1"),
        has_header=False,
        num_columns=3,
    )
    examples = read_table(write("1\tx\tfirst\n0\ty\tsecond"), layout)
    assert examples.texts == (["first", "second"],)
    np.testing.assert_array_equal(examples.labels, [1, 0])


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_read_table_accepts_byte_order_mark_and_line_ends(
    write, prefix, newline
):
    text = newline.join(["sentence\tlabel", "caf\u00e9\tgood", ""])
    examples = read_table(write(prefix + text.encode()), SENTENCES)
    assert examples.texts == (["caf\u00e9"],)


def test_read_table_keeps_quotes_and_unicode_line_separators(write):
    text = '"quoted" and \u2028 split \u0085 nowhere'
    path = write(f'sentence\tlabel\n{text}\tgood\n"\tbad\n')
    assert read_table(path, SENTENCES).texts == ([text, '"'],)


def test_read_table_leaves_test_files_unlabelled(write):
    path = write("index\tsentence\n0\tso dull\n", "test.tsv")
    examples = read_table(path, SENTENCES)
    assert examples.labels is None
    assert len(examples) == 1


def test_read_table_uses_labels_of_test_files_that_have_them(write):
    path = write("sentence\tlabel\nso dull\tbad\n", "test.tsv")
    np.testing.assert_array_equal(read_table(path, SENTENCES).labels, [0])


def test_read_table_names_missing_headings(write):
    path = write("text\tlabel\nso dull\tbad\n")
    with pytest.raises(UsageError, match="line 1: expected a header") as info:
        read_table(path, SENTENCES)
    assert "Missing: 'sentence'" in str(info.value)
    assert "Received: ['text', 'label']" in str(info.value)


def test_read_table_needs_labels_outside_test_files(write):
    with pytest.raises(UsageError, match="Missing: 'label'"):
        read_table(write("sentence\nso dull\n", "dev.tsv"), SENTENCES)


def test_read_table_names_every_malformed_row(write):
    path = write(
        "sentence\tlabel\nfine\tgood\nno tab\n\na\tb\tgood\n \tgood\nx\tugly\n"
    )
    with pytest.raises(UsageError) as info:
        read_table(path, SENTENCES)
    lines = str(info.value).splitlines()
    assert lines[0] == (
        f"{path}, line 3: expected 2 columns separated by tabs. "
        "Received: 1 columns, 'no tab'"
    )
    assert lines[1].startswith(f"{path}, line 4: expected 2 columns")
    assert lines[2].startswith(f"{path}, line 5: expected 2 columns")
    assert lines[3].startswith(f"{path}, line 6: expected text")
    assert lines[4] == (
        f"{path}, line 7: unknown label. Expected one of ('bad', 'good'). "
        "Received: 'ugly'"
    )
    assert "remove these lines" in lines[5]


def test_read_table_counts_problems_beyond_the_first_ten(write):
    with pytest.raises(UsageError, match="and 15 more lines"):
        read_table(write("sentence\tlabel\n" + "x\tugly\n" * 25), SENTENCES)


@pytest.mark.parametrize("score", ["", "high", "nan", "inf"])
def test_read_table_names_scores_that_are_no_numbers(write, score):
    path = write(f"first\tscore\tsecond\na\t{score}\tb\n")
    with pytest.raises(UsageError, match="line 2: expected a 32-bit number"):
        read_table(path, PAIRS)


@pytest.mark.parametrize("content", ["", "\n", "\ufeff"])
def test_read_table_refuses_an_empty_file(write, content):
    with pytest.raises(UsageError, match="is empty. Expected a header"):
        read_table(write(content), SENTENCES)


def test_read_table_refuses_a_file_with_a_header_only(write):
    with pytest.raises(UsageError, match="has no rows"):
        read_table(write("sentence\tlabel\n"), SENTENCES)


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"])
def test_read_table_names_the_line_that_is_not_utf8(write, prefix):
    path = write(prefix + b"sentence\tlabel\nfine\tgood\ncaf\xe9\tgood\n")
    with pytest.raises(UsageError, match="line 3: .* byte 0xe9"):
        read_table(path, SENTENCES)


def test_read_table_joins_rows_broken_by_a_line_feed(write):
    layout = TableLayout(
        folder="Broken",
        text_columns=("a", "b"),
        label_column="label",
        label_words=("0", "1"),
        joins_broken_rows=True,
    )
    path = write('a\tb\tlabel\nw\tx\t1\n"half\nrest"\ty\t0\nz\tz\t1\n')
    examples = read_table(path, layout)
    assert examples.texts == (["w", '"half rest"', "z"], ["x", "y", "z"])
    np.testing.assert_array_equal(examples.labels, [1, 0, 1])


def test_read_table_names_rows_that_do_not_join(write):
    layout = TableLayout(
        folder="Broken",
        text_columns=("a", "b"),
        label_column="label",
        label_words=("0", "1"),
        joins_broken_rows=True,
    )
    with pytest.raises(UsageError, match="line 2: expected 3 columns"):
        read_table(write("a\tb\tlabel\nhalf\t1\nw\tx\t1\n"), layout)
    with pytest.raises(UsageError, match="line 2: expected 3 columns"):
        read_table(write("a\tb\tlabel\nhalf\t1\n"), layout)


def test_require_tables_names_all_missing_files(tmp_path):
    (tmp_path / "Films").mkdir()
    (tmp_path / "Films" / "train.tsv").write_text("sentence\tlabel\n")
    require_tables(SENTENCES, ["train"], tmp_path)
    with pytest.raises(UsageError) as info:
        require_tables(SENTENCES, ["train", "dev", "test"], tmp_path)
    message = str(info.value)
    missing = message[: message.index("official")]
    assert str(tmp_path / "Films" / "dev.tsv") in missing
    assert str(tmp_path / "Films" / "test.tsv") in missing
    assert str(tmp_path / "Films" / "train.tsv") not in missing
    assert "DATA_DIR/Films/train.tsv" in message


def test_require_tables_suggests_the_parent_of_the_task_folder(tmp_path):
    folder = tmp_path / "Films"
    folder.mkdir()
    with pytest.raises(UsageError, match="Did you mean") as info:
        require_tables(SENTENCES, ["train"], folder)
    assert str(info.value).endswith(f"Did you mean {str(tmp_path)!r}?")


def test_require_tables_says_when_there_is_no_directory(tmp_path):
    with pytest.raises(UsageError, match="not a directory"):
        require_tables(SENTENCES, ["train"], tmp_path / "absent")


def test_table_layout_refuses_indices_with_a_header():
    with pytest.raises(UsageError, match="Columns are headings"):
        TableLayout("X", (0,), "label", ("0", "1"))


def test_table_layout_needs_the_number_of_columns_without_a_header():
    with pytest.raises(UsageError, match="needs `num_columns`"):
        TableLayout("X", (0,), 1, ("0", "1"), has_header=False)


def test_examples_refuse_columns_of_different_lengths():
    with pytest.raises(UsageError, match="same number"):
        Examples((["a", "b"], ["c"]))
    with pytest.raises(UsageError, match="same number"):
        Examples((["a", "b"],), np.array([0], "int32"))


def test_examples_refuse_three_columns():
    with pytest.raises(UsageError, match="1 or 2 columns"):
        Examples((["a"], ["b"], ["c"]))


def test_examples_take_rows_in_the_given_order():
    examples = Examples((["a", "b", "c"], ["d", "e", "f"]), np.array([0, 1, 2]))
    taken = examples.take([2, 0])
    assert taken.texts == (["c", "a"], ["f", "d"])
    np.testing.assert_array_equal(taken.labels, [2, 0])
