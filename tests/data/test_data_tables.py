"""Reading tab-separated files."""

import numpy as np
import pytest

from kdkit.data import Examples, TableLayout, read_table

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


def test_examples_take_rows_in_the_given_order():
    examples = Examples((["a", "b", "c"], ["d", "e", "f"]), np.array([0, 1, 2]))
    taken = examples.take([2, 0])
    assert taken.texts == (["c", "a"], ["f", "d"])
    np.testing.assert_array_equal(taken.labels, [2, 0])
