"""Batches of sentences of about as many tokens each."""

import itertools
from collections.abc import Sequence

import numpy as np

from kdkit.backends import tf
from kdkit.data.ahead import made_ahead
from kdkit.data.packed_batches import EVALUATION
from kdkit.data.packed_batches import step_seed
from kdkit.data.pair_rows import PairRows
from kdkit.data.pair_rows import pair_batch
from kdkit.data.sentences import EncodedSentences
from kdkit.errors import UsageError

REAL_SHARE = 0.8  # of a batch's tokens at least; the others are padding


def token_batches(
    lengths: Sequence[np.ndarray], max_tokens: int, seed: int, epoch: int
) -> list[np.ndarray]:
    """Puts rows of similar lengths into batches of about as many tokens.

    Rows are ordered by their lengths, those of the same length at random, cut
    where a batch would have more than `max_tokens` tokens with its padding, or
    more than a fifth of padding, and the batches are shuffled. Every epoch has
    as many batches, of as many rows.

    Args:
        lengths: sequence of int arrays of shape `(num_rows,)`. The tokens of
            each row, of every side: of source and target, say.
        max_tokens: int. Tokens of a batch at most, all sides and their padding
            together; a row that is longer has a batch of its own.
        seed: int. Seed of the order.
        epoch: int. From 0.

    Returns:
        List of int arrays, the numbers of the rows of each batch.

    >>> token_batches([np.array([2, 9, 2, 8])], max_tokens=18, seed=0, epoch=0)
    [array([3, 1]), array([2, 0])]
    """
    return _drawn(lengths, _cuts(lengths, max_tokens), seed, epoch)


def _cuts(lengths, max_tokens):
    """Where rows in the order of their lengths are cut, in every epoch."""
    rows = np.stack(lengths, axis=1)[_by_length(lengths)].tolist()
    cuts, begin = [], 0
    longest = [0] * len(lengths)
    real = 0
    for end, sides in enumerate(rows):
        with_row = list(map(max, longest, sides))
        padded = sum(with_row) * (end - begin + 1)
        real += sum(sides)
        if end > begin and (padded > max_tokens or real < REAL_SHARE * padded):
            cuts.append(end)
            begin, with_row, real = end, sides, sum(sides)
        longest = with_row
    return cuts


def _drawn(lengths, cuts, seed, epoch):
    """The batches of an epoch, as `token_batches` returns them."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths[0]))
    order = order[_by_length([side[order] for side in lengths])]
    batches = np.split(order, cuts)
    return [batches[number] for number in rng.permutation(len(batches))]


def _by_length(lengths):
    """The order of rows by their first side, then by the others."""
    return np.lexsort(lengths[::-1])  # takes the last key as the first


def pair_batches(
    sources: EncodedSentences,
    targets: EncodedSentences,
    max_tokens: int,
    seed: int,
    first_epoch: int = 0,
    first_step: int = 0,
    features=None,
) -> "tuple[tf.data.Dataset, int]":
    """Returns endless shuffled batches of pairs for an encoder-decoder.

    Args:
        sources: `EncodedSentences`.
        targets: `EncodedSentences`, as many.
        max_tokens: int. As in `token_batches`.
        seed: int. Seed of the order.
        first_epoch: int. Epoch to begin with, from 0. The batches of an epoch
            do not depend on it. Defaults to `0`.
        first_step: int. How many batches of it to leave out. Defaults to `0`.
        features: as in `kdkit.data.training_batches`, of the pairs as
            `kdkit.data.PairRows`. Defaults to `None`.

    Returns:
        Tuple of a `tf.data.Dataset` of `(x, y, sample_weight)`, and the number
        of batches in an epoch. `x` has the inputs of a
        `kdkit.models.MassBackbone`: the target without its end, and `y` is the
        target without its language.

    Raises:
        UsageError: (a `ValueError`) if there are not as many targets.
    """
    if len(sources) != len(targets):
        raise UsageError(
            "Each source has a target. Received: "
            f"{len(sources)} sources, {len(targets)} targets."
        )
    lengths = [sources.lengths, targets.lengths]
    cuts = _cuts(lengths, max_tokens)

    def batches():
        for epoch in itertools.count(first_epoch):
            begin = first_step if epoch == first_epoch else 0
            yield from _drawn(lengths, cuts, seed, epoch)[begin:]

    pairs = _pairs(batches, sources, targets, features)
    return _endless(pairs), len(cuts) + 1


def pair_evaluation_batches(
    sources: EncodedSentences,
    targets: EncodedSentences,
    max_tokens: int,
    features=None,
) -> "tf.data.Dataset":
    """Returns every pair once, always in the same batches.

    Args:
        sources, targets, max_tokens, features: as in `pair_batches`.
    """
    lengths = [sources.lengths, targets.lengths]
    rows_of = token_batches(lengths, max_tokens, seed=0, epoch=0)
    pairs = _pairs(lambda: rows_of, sources, targets, features)
    return _of_length(pairs, len(rows_of))


def _pairs(batches, sources, targets, features):
    """Batches of pairs with what else comes with them, of their numbers."""
    features = features and features(PairRows(sources, targets))

    def generate():
        for rows in batches():
            x, y, weights = pair_batch(sources, targets, rows)
            if features is not None:
                x |= features(rows, y.shape[1])
            yield x, y, weights

    ids = tf.TensorSpec((None, None), "int32")
    names = (
        "encoder_token_ids",
        "encoder_padding_mask",
        "decoder_token_ids",
        "decoder_padding_mask",
        "decoder_positions",
    )
    further = {} if features is None else features.signature
    signature = (
        dict.fromkeys(names, ids) | further,
        ids,
        tf.TensorSpec((None, None), "float32"),
    )
    return tf.data.Dataset.from_generator(generate, output_signature=signature)


def _endless(dataset):
    return _of_length(dataset, tf.data.experimental.INFINITE_CARDINALITY)


def _of_length(dataset, cardinality):
    return made_ahead(
        dataset.apply(tf.data.experimental.assert_cardinality(cardinality))
    )


def span_batches(
    sentences: EncodedSentences,
    masker,
    max_tokens: int,
    seed: int,
    first_epoch: int = 0,
    first_step: int = 0,
) -> "tuple[tf.data.Dataset, int]":
    """Returns endless shuffled batches of sentences with a hidden span each.

    Args:
        sentences: `EncodedSentences`, of several languages maybe.
        masker: `kdkit.data.SpanMasker`.
        max_tokens: int. As in `token_batches`.
        seed: int. Seed of order and spans.
        first_epoch: int. Epoch to begin with, from 0. Defaults to `0`.
        first_step: int. How many batches of it to leave out. Defaults to `0`.

    Returns:
        Tuple of a `tf.data.Dataset` as the masker makes it, and the number of
        batches in an epoch.
    """
    lengths = [sentences.lengths, masker.span_lengths(sentences.lengths)]
    cuts = _cuts(lengths, max_tokens)

    def batches():
        for epoch in itertools.count(first_epoch):
            begin = first_step if epoch == first_epoch else 0
            drawn = _drawn(lengths, cuts, seed, epoch)
            for step, rows in enumerate(drawn[begin:], start=begin):
                yield sentences.padded(rows), step_seed(seed, epoch, step)

    return _endless(_masked(batches, masker)), len(cuts) + 1


def span_evaluation_batches(
    sentences: EncodedSentences, masker, max_tokens: int
) -> "tf.data.Dataset":
    """Returns every sentence once, always with the same span hidden.

    Args:
        sentences, masker, max_tokens: as in `span_batches`.
    """
    lengths = [sentences.lengths, masker.span_lengths(sentences.lengths)]
    rows_of = token_batches(lengths, max_tokens, seed=0, epoch=0)

    def batches():
        for step, rows in enumerate(rows_of):
            yield sentences.padded(rows), step_seed(0, EVALUATION, step)

    return _of_length(_masked(batches, masker), len(rows_of))


def _masked(generate, masker):
    """Rows with seeds, as a generator yields them, made `(x, y, weights)`."""
    rows = tf.data.Dataset.from_generator(
        generate,
        output_signature=(
            tf.TensorSpec((None, None), "int32"),
            tf.TensorSpec((2,), "int64"),
        ),
    )
    return rows.map(masker, num_parallel_calls=tf.data.AUTOTUNE)
