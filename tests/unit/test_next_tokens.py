"""Running text for decoders: sequences, targets, and which ones count."""

import keras_hub
import numpy as np
import pytest

from kdkit import data

LETTERS = "abcdefgh"
END, NEWLINE = 0, 9


@pytest.fixture(scope="module")
def tokenizer():
    """A letter is a token: a is 1, b is 2; a line's end is 9."""
    pieces = ["<|endoftext|>", *LETTERS, "Ċ", "hh"]
    return keras_hub.tokenizers.GPT2Tokenizer(
        {piece: index for index, piece in enumerate(pieces)}, ["h h"]
    )


def ids(text):
    return [LETTERS.index(letter) + 1 for letter in text]


def test_documents_stand_apart_and_every_row_shares_one_token(
    tokenizer, tmp_path
):
    packed = data.pack_stream(["abc", "de"], tokenizer, 3, tmp_path)
    stream = [END, *ids("abc"), END, *ids("de"), END]
    rows = [stream[:4], stream[3:7], [*stream[6:8], -1, -1]]
    np.testing.assert_array_equal(packed.rows, rows)
    again = data.open_packed(tmp_path)
    np.testing.assert_array_equal(again.rows, rows)
    assert again.stride == packed.stride == 3


def test_lines_of_one_document_follow_each_other(tokenizer, tmp_path):
    lines = ["ab\n", "c\n", "", "d\n", ""]
    packed = data.pack_stream(lines, tokenizer, 20, tmp_path, one_document=True)
    (row,) = packed.rows
    stream = [END, *ids("ab"), NEWLINE, *ids("c"), NEWLINE, END]
    stream += [*ids("d"), NEWLINE, END]
    assert row[row >= 0].tolist() == stream


def batches(rows):
    """Inputs, labels, weights and masks, row by row."""
    stream = data.BatchStream(rows, data.FullBatches(2))
    for x, *rest in stream.evaluation():
        columns = (x["token_ids"], *rest, x["padding_mask"])
        yield from zip(*(column.numpy() for column in columns), strict=True)


@pytest.mark.parametrize(
    ("length", "stride"), [(1, None), (3, 2), (5, 1), (12, None), (40, 2)]
)
def test_every_token_but_the_first_counts_once_with_its_context(
    tokenizer, tmp_path, length, stride
):
    texts = ["abcdefgh", "hgf", "a", "bcdb"]
    packed = data.pack_stream(texts, tokenizer, length, tmp_path, stride)
    stream = [END]
    for text in texts:
        stream += [*ids(text), END]
    found = []
    rows = data.PackedRows(packed)
    for row, labels, counts, mask in batches(rows):
        for place in np.flatnonzero(counts):
            assert mask[place] == 1
            found.append(labels[place])
            context = row[: place + 1].tolist()
            end = len(found)  # tokens before this one in the stream
            assert context == stream[end - len(context) : end]
            at_least = length - (stride or length) + 1
            assert len(context) >= min(at_least, end)
    assert found == stream[1:]


def test_training_batches_are_rows_and_what_follows(tokenizer, tmp_path):
    packed = data.pack_stream(["abcdefgh"] * 4, tokenizer, 4, tmp_path)
    stream = data.BatchStream(data.PackedRows(packed), data.FullBatches(2))
    assert stream.steps_per_epoch == len(packed) // 2
    for x, y, weights in stream.training().take(stream.steps_per_epoch):
        mask = x["padding_mask"][:, 1:]
        np.testing.assert_array_equal(
            x["token_ids"][:, 1:] * mask, y[:, :-1] * mask
        )
        assert weights.dtype == "float32"


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("wikitext", '" low " , he said " so "\n', '"low", he said "so"\n'),
        ("wikitext", "a 1 @,@ 000 @-@ year ( 5 % ) .", "a 1,000-year (5%)."),
        ("wikitext", "= = Title = =\n", "= = Title = =\n"),
        ("ptb", "it was n't the bank 's $ N", "it wasn't the bank's $N"),
        ("ptb", "\n", "\n"),
    ],
)
def test_words_become_running_text(name, line, expected):
    assert data.DETOKENIZERS[name](line) == expected
