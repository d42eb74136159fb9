"""Reading running text and packing it into sequences."""

import itertools

import keras_hub
import numpy as np
import pytest

from kdkit import data
from kdkit.data.packing import TEXTS_PER_STEP
from kdkit.errors import UsageError

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##d"]


@pytest.fixture(scope="module")
def tokenizer():
    return keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=True)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_lines_are_texts_and_empty_ones_are_passed_over(tmp_path):
    first = write(tmp_path / "a.txt", "\ufeffone\n\n  two\tstill two  \n")
    second = write(tmp_path / "b.txt", "three")
    corpus = data.Corpus((first, second))
    assert list(corpus.texts()) == ["one", "two\tstill two", "three"]


def test_a_column_of_a_table_is_found_by_its_heading(tmp_path):
    file = write(tmp_path / "a.tsv", "id\ttext\r\n1\tone\r\n2\ttwo\r\n")
    corpus = data.Corpus((file,), column="text")
    corpus.check()
    assert list(corpus.texts()) == ["one", "two"]


@pytest.mark.parametrize("one_document", [False, True])
def test_a_table_without_a_column_is_refused(one_document, tmp_path):
    """Its labels would be text."""
    table = write(tmp_path / "a.tsv", "id\ttext\n1\tone\n\n2\ttwo\n")
    corpus = data.Corpus((table,), one_document=one_document)
    for read in (corpus.check, lambda: next(corpus.texts())):
        with pytest.raises(UsageError, match="a table.*3 of the first 3 lines"):
            read()
    with pytest.raises(UsageError, match="--column") as raised:
        data.Corpus((table, str(tmp_path / "b.txt"))).check()
    assert "No such file of text" in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id\tbody\n1\tone\n", "has no column 'text'"),
        ("id\ttext\n1\tone\n2\n", "line 3: expected 2 columns"),
    ],
)
def test_malformed_tables_name_the_line(content, message, tmp_path):
    file = write(tmp_path / "a.tsv", content)
    with pytest.raises(UsageError, match=message):
        list(data.Corpus((file,), column="text").texts())


def test_text_that_is_not_utf8_names_the_line(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\n\xff\n")
    with pytest.raises(UsageError, match="line 2: expected UTF-8.*0xff"):
        list(data.Corpus((str(file),)).texts())


def test_missing_files_are_told_together(tmp_path):
    files = tuple(str(tmp_path / name) for name in ("a.txt", "b.txt"))
    with pytest.raises(UsageError) as raised:
        data.Corpus(files).check()
    assert "a.txt" in str(raised.value)
    assert "b.txt" in str(raised.value)
    with pytest.raises(UsageError, match="at least one file"):
        data.Corpus(())


def test_rows_are_the_texts_one_after_the_other(tokenizer, tmp_path):
    texts = ["a b c", "ad", "c c c c", "b"]
    packed = data.pack(texts, tokenizer, 6, tmp_path)
    stream = []
    for text in texts:
        stream += [*np.asarray(tokenizer(text)), tokenizer.end_token_id]
    expected = [
        [
            tokenizer.start_token_id,
            *stream[start : start + 4],
            tokenizer.end_token_id,
        ]
        for start in range(0, len(stream) // 4 * 4, 4)
    ]
    np.testing.assert_array_equal(packed.rows, expected)
    assert packed.num_texts == 4
    np.testing.assert_array_equal(data.open_packed(tmp_path).rows, packed.rows)


def test_a_flipped_bit_in_packed_rows_is_noticed(tokenizer, tmp_path):
    data.pack(["a b c", "ad", "c c c c", "b"], tokenizer, 6, tmp_path)
    rows = tmp_path / "rows"
    right = rows.read_bytes()
    rows.write_bytes(right[:4] + bytes([right[4] ^ 1]) + right[5:])
    assert data.open_packed(tmp_path) is None


def test_another_number_in_an_index_is_no_packed_text(tokenizer, tmp_path):
    data.pack_stream(["a b c", "b"], tokenizer, 3, tmp_path, num_words=88)
    assert data.open_packed(tmp_path).num_words == 88
    index = tmp_path / "index.json"
    right = index.read_text()
    index.write_text(right.replace('"num_words": 88', '"num_words": 988'))
    assert data.open_packed(tmp_path) is None


def test_rows_go_on_from_one_step_of_texts_to_the_next(tokenizer, tmp_path):
    texts = ["a b"] * (2 * TEXTS_PER_STEP + 1)
    packed = data.pack(iter(texts), tokenizer, 9, tmp_path)
    tokens = 3 * len(texts)  # with one [SEP] each
    assert packed.rows.shape == (tokens // 7, 9)
    stream = packed.rows[:, 1:-1].ravel()
    unit = [PIECES.index(piece) for piece in ("a", "b", "[SEP]")]
    expected = list(itertools.islice(itertools.cycle(unit), len(stream)))
    np.testing.assert_array_equal(stream, expected)


def test_packing_that_failed_leaves_nothing_to_open(tokenizer, tmp_path):
    def texts():
        yield from ["a b c"] * 10
        raise UsageError("the text broke off")

    with pytest.raises(Exception, match="the text broke off"):
        data.pack(texts(), tokenizer, 6, tmp_path)
    assert data.open_packed(tmp_path) is None


def test_too_little_text_is_refused(tokenizer, tmp_path):
    with pytest.raises(UsageError, match="too little text.*1 texts"):
        data.pack(["a b"], tokenizer, 32, tmp_path)
    with pytest.raises(UsageError, match="leave room"):
        data.pack(["a b"], tokenizer, 2, tmp_path)
