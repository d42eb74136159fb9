"""Running text in sequences of one length, and their files."""

import itertools

import keras_hub
import numpy as np
import pytest

from kdkit import data

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##d"]
TEXTS = ["a b c", "ad", "c c c c", "b"]


@pytest.fixture(scope="module")
def tokenizer():
    return keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=True)


def test_rows_are_the_texts_one_after_the_other(tokenizer, tmp_path):
    packed = data.pack(TEXTS, tokenizer, 6, tmp_path)
    stream = []
    for text in TEXTS:
        stream += [*np.asarray(tokenizer(text)), tokenizer.end_token_id]
    start, end = tokenizer.start_token_id, tokenizer.end_token_id
    expected = [
        [start, *stream[first : first + 4], end]
        for first in range(0, len(stream) // 4 * 4, 4)
    ]
    np.testing.assert_array_equal(packed.rows, expected)
    assert packed.num_texts == 4
    np.testing.assert_array_equal(data.open_packed(tmp_path).rows, packed.rows)


def test_rows_go_on_over_any_number_of_texts(tokenizer, tmp_path):
    texts = ["a b"] * 9001
    packed = data.pack(iter(texts), tokenizer, 9, tmp_path)
    tokens = 3 * len(texts)  # with one [SEP] each
    assert packed.rows.shape == (tokens // 7, 9)
    stream = packed.rows[:, 1:-1].ravel()
    unit = [PIECES.index(piece) for piece in ("a", "b", "[SEP]")]
    expected = list(itertools.islice(itertools.cycle(unit), len(stream)))
    np.testing.assert_array_equal(stream, expected)


def test_a_folder_with_other_files_is_not_replaced(tokenizer, tmp_path):
    (tmp_path / "mine").write_text("a")
    with pytest.raises(ValueError, match="has other files"):
        data.pack(TEXTS, tokenizer, 6, tmp_path)
    assert (tmp_path / "mine").read_text() == "a"


def test_a_file_that_was_cut_off_is_no_packed_text(tokenizer, tmp_path):
    data.pack_stream(["a b c", "b"], tokenizer, 3, tmp_path, num_words=88)
    assert data.open_packed(tmp_path).num_words == 88
    rows = tmp_path / "rows"
    rows.write_bytes(rows.read_bytes()[:-4])
    assert data.open_packed(tmp_path) is None
    data.pack(TEXTS, tokenizer, 6, tmp_path)
    assert data.open_packed(tmp_path).num_words is None


def test_text_that_fills_no_sequence_is_refused(tokenizer, tmp_path):
    with pytest.raises(ValueError, match="do not fill a sequence of 99"):
        data.pack(TEXTS, tokenizer, 99, tmp_path)
    assert data.open_packed(tmp_path) is None


def test_packing_that_failed_leaves_nothing_to_open(tokenizer, tmp_path):
    def texts():
        yield from ["a b c"] * 10
        raise ValueError("the text broke off")

    with pytest.raises(ValueError, match="the text broke off"):
        data.pack(texts(), tokenizer, 6, tmp_path)
    assert data.open_packed(tmp_path) is None
