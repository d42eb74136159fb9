"""Properties of batches, masks and spans for any rows."""

import functools

import keras_hub
import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from kdkit import data

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = 20
CONTINUATIONS = 10

seeds = st.integers(0, 2**31 - 1)
some_lengths = st.lists(st.integers(1, 40), min_size=1, max_size=60).map(
    lambda drawn: np.array(drawn, "int32")
)


@given(
    lengths=some_lengths,
    num_buckets=st.integers(1, 9),
    batch_size=st.integers(1, 17),
    seed=seeds,
    epoch=st.integers(0, 50),
)
def test_an_epoch_has_every_row_once_where_it_fits(
    lengths, num_buckets, batch_size, seed, epoch
):
    boundaries = data.bucket_boundaries(lengths, num_buckets, maximum=64)
    batches, again, another_epoch = (
        data.epoch_batches(lengths, boundaries, batch_size, seed, number)
        for number in (epoch, epoch, epoch + 1)
    )
    rows = np.concatenate([rows for rows, _ in batches])
    assert sorted(rows) == list(range(len(lengths)))
    for batch, length in batches:
        assert lengths[batch].max() <= length
        assert length in boundaries
    sizes = [len(batch) for batch, _ in batches]
    assert sum(size < batch_size for size in sizes) <= 1
    assert [batch.tolist() for batch, _ in batches] == [
        batch.tolist() for batch, _ in again
    ]

    def shapes(found):
        return sorted((len(batch), length) for batch, length in found)

    assert shapes(batches) == shapes(another_epoch)


@given(lengths=some_lengths, num_buckets=st.integers(1, 9))
def test_one_more_bucket_never_pads_more(lengths, num_buckets):
    fewer, more = (
        sum(
            boundaries[np.searchsorted(boundaries, length)]
            for length in lengths
        )
        for boundaries in (
            data.bucket_boundaries(lengths, count, maximum=64)
            for count in (num_buckets, num_buckets + 1)
        )
    )
    assert more <= fewer


@given(
    num_rows=st.integers(0, 40),
    total=st.integers(1, 9),
    processes=st.integers(1, 4),
)
def test_shares_of_all_processes_are_the_batch(num_rows, total, processes):
    total *= processes  # replicas
    each = total // processes
    rows = np.arange(100, 100 + num_rows)
    shares = [
        share
        for process in range(processes)
        for share in data.Shares(process * each, each, total).of_rows(rows)
    ]
    assert np.concatenate(shares).tolist() == rows.tolist()
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@functools.cache
def masker(whole_words):
    pieces = [f"w{number}" for number in range(WORDS)]
    pieces += [f"##c{number}" for number in range(CONTINUATIONS)]
    tokenizer = keras_hub.tokenizers.BertTokenizer(
        [*SPECIAL, *pieces], lowercase=True
    )
    return data.Masker(data.Masking(whole_words=whole_words), tokenizer)


@given(seed=seeds, row_seed=seeds, whole_words=st.booleans())
def test_a_masked_row_with_its_labels_put_back_is_the_row(
    seed, row_seed, whole_words
):
    generator = np.random.default_rng(row_seed)
    vocabulary_size = len(SPECIAL) + WORDS + CONTINUATIONS
    rows = generator.integers(0, vocabulary_size, (3, 30)).astype("int32")
    x, y, weights = masker(whole_words)(tf.constant(rows), [seed, 0])
    positions = x["mask_positions"].numpy()
    restored = x["token_ids"].numpy().copy()
    np.put_along_axis(restored, positions, y.numpy(), axis=1)
    np.testing.assert_array_equal(restored, rows)
    # What does not count is as it was, and nothing special counts.
    counts = weights.numpy() > 0
    placed = np.take_along_axis(x["token_ids"].numpy(), positions, axis=1)
    np.testing.assert_array_equal(placed[~counts], y.numpy()[~counts])
    assert (y.numpy()[counts] >= len(SPECIAL)).all()
    assert counts.sum(axis=1).max() <= data.Masking().num_predictions(30)


class Ids:
    """The tokenizer of a span masker."""

    pad_token_id = 0
    mask_token_id = 4
    special_token_ids = [0, 2, 3, 4, 5]

    def get_vocabulary(self):
        return [f"w{number}" for number in range(60)]


@functools.cache
def span_masker():
    return data.SpanMasker(data.SpanMasking(), Ids())


@given(
    lengths=st.lists(st.integers(1, 25), min_size=1, max_size=6),
    seed=seeds,
    row_seed=seeds,
)
def test_a_sentence_with_its_span_put_back_is_the_sentence(
    lengths, seed, row_seed
):
    generator = np.random.default_rng(row_seed)
    rows = np.zeros((len(lengths), max(lengths) + 2), "int32")
    for row, length in enumerate(lengths):
        sentence = generator.integers(6, 60, length)
        rows[row, : length + 2] = [5, *sentence, 3]
    x, y, weights = span_masker()(tf.constant(rows), [seed, 1])
    hidden = x["encoder_token_ids"].numpy()
    real = weights.numpy() > 0
    # Positions are those of what the decoder reads, one before each target.
    places = x["decoder_positions"].numpy() + 1
    for row, length in enumerate(lengths):
        span = places[row][real[row]]
        assert len(span) == max(1, round(length / 2))
        assert (np.diff(span) == 1).all()
        assert span.min() >= 1
        assert span.max() <= length
        restored = hidden[row].copy()
        restored[span] = y.numpy()[row][real[row]]
        np.testing.assert_array_equal(restored, rows[row])
        np.testing.assert_array_equal(
            x["decoder_token_ids"].numpy()[row][real[row]],
            [5, *rows[row][span[:-1]]],
        )
