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


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="train.tsv"):
        path = tmp_path / name
        if isinstance(content, str):
            content = content.encode("utf-8")
        path.write_bytes(content)
        return path

    return write_file


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


def test_read_table_uses_labels_of_test_files_that_have_them(write):
    path = write("sentence\tlabel\nso dull\tbad\n", "test.tsv")
    np.testing.assert_array_equal(read_table(path, SENTENCES).labels, [0])


def test_examples_take_rows_in_the_given_order():
    examples = Examples((["a", "b", "c"], ["d", "e", "f"]), np.array([0, 1, 2]))
    taken = examples.take([2, 0])
    assert taken.texts == (["c", "a"], ["f", "d"])
    np.testing.assert_array_equal(taken.labels, [2, 0])
