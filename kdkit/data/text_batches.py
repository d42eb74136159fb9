"""Batches of packed text and of sentences."""

import itertools
from collections.abc import Sequence

import numpy as np

from kdkit.backends import tf
from kdkit.data.batching import made_ahead
from kdkit.data.masking import Masker
from kdkit.data.packing import PackedCorpus
from kdkit.data.packing import PackedRows
from kdkit.data.packing import next_tokens
from kdkit.data.packing import plain
from kdkit.data.sentences import EncodedSentences
from kdkit.data.sentences import PairRows
from kdkit.data.sentences import pair_batch
from kdkit.errors import UsageError

# Stands in the place of the epoch in the seeds of evaluation.
EVALUATION = -1


def masked_training_batches(
    corpus: PackedCorpus,
    masker: Masker,
    batch_size: int,
    seed: int,
    first_epoch: int = 0,
    first_step: int = 0,
) -> "tuple[tf.data.Dataset, int]":
    """Returns endless shuffled batches, masked anew in every epoch.

    Order and masks of an epoch are a function of `(seed, epoch)` alone, so
    training can go on where it stopped. Batches have one shape: what does not
    fill the last one is left out, other rows in every epoch.

    Args:
        corpus: `PackedCorpus`.
        masker: `Masker`.
        batch_size: int. Rows of a batch; all of them if there are fewer.
        seed: int. Seed of order and masks.
        first_epoch: int. Epoch to begin with, from 0. Defaults to `0`.
        first_step: int. How many batches of it to leave out, whose rows are
            not read. Defaults to `0`.

    Returns:
        Tuple of a `tf.data.Dataset` of `(x, y, sample_weight)` as `Masker`
        makes them, and the number of batches in an epoch.
    """
    return _endless(corpus, batch_size, seed, first_epoch, first_step, masker)


def masked_evaluation_batches(
    corpus: PackedCorpus, masker: Masker, batch_size: int
) -> "tf.data.Dataset":
    """Returns every row once, in order, always with the same masks.

    Args:
        corpus: `PackedCorpus`.
        masker: `Masker`.
        batch_size: int. Rows of a batch; the last may have fewer.
    """
    return _in_order(corpus, batch_size, masker)


def plain_training_batches(
    corpus: PackedCorpus,
    batch_size: int,
    seed: int,
    first_epoch: int = 0,
    first_step: int = 0,
    features=None,
) -> "tuple[tf.data.Dataset, int]":
    """Returns endless shuffled batches of the rows as they stand.

    Args:
        corpus, batch_size, seed, first_epoch, first_step: as in
            `masked_training_batches`, whose order this is.
        features: as in `kdkit.data.training_batches`, of the corpus as
            `kdkit.data.PackedRows`. Defaults to `None`.

    Returns:
        Tuple of a `tf.data.Dataset` of dicts of `token_ids`, `segment_ids` and
        `padding_mask`, and the number of batches in an epoch.
    """
    return _endless(
        corpus, batch_size, seed, first_epoch, first_step, plain, features
    )


def plain_evaluation_batches(
    corpus: PackedCorpus, batch_size: int, features=None
) -> "tf.data.Dataset":
    """Returns every row once, in order, as it stands.

    Args:
        corpus: `PackedCorpus`.
        batch_size: int. Rows of a batch; the last may have fewer.
        features: as in `plain_training_batches`.
    """
    return _in_order(corpus, batch_size, plain, features)


def next_token_training_batches(
    corpus: PackedCorpus,
    batch_size: int,
    seed: int,
    first_epoch: int = 0,
    first_step: int = 0,
    features=None,
) -> "tuple[tf.data.Dataset, int]":
    """Returns endless shuffled batches of rows, each token to be predicted.

    Args:
        corpus: `PackedCorpus` as `kdkit.data.pack_stream` makes it.
        batch_size, seed, first_epoch, first_step: as in
            `masked_training_batches`.
        features: as in `plain_training_batches`.

    Returns:
        Tuple of a `tf.data.Dataset` of `(x, y, sample_weight)` and the number
        of batches in an epoch. `x` is a dict of `token_ids` and `padding_mask`,
        `y` the ids that follow, `sample_weight` 1 where there is one, all of
        shape `(batch_size, sequence_length)`.
    """
    return _endless(
        corpus, batch_size, seed, first_epoch, first_step, next_tokens, features
    )


def next_token_evaluation_batches(
    corpus: PackedCorpus, batch_size: int, features=None
) -> "tf.data.Dataset":
    """Returns every row once, in order, with weight 1 at every token once.

    Where rows overlap, what a row has in common with the one before is context.

    Args:
        corpus: `PackedCorpus` as `kdkit.data.pack_stream` makes it.
        batch_size: int. Rows of a batch; the last may have fewer.
        features: as in `plain_training_batches`.
    """
    seen = corpus.sequence_length - 1 - corpus.stride

    def without_overlap(x, y, weights, first_row):
        """The first `seen` tokens of all rows but the first one are old."""
        old = tf.range(tf.shape(y)[1]) < seen
        later = tf.range(tf.shape(y)[0]) + first_row > 0
        is_old = later[:, tf.newaxis] & old[tf.newaxis, :]
        return x, y, tf.where(is_old, 0.0, weights)

    batches = _in_order(corpus, batch_size, next_tokens, features)
    if not seen:
        return batches
    first_rows = tf.data.Dataset.range(
        0, len(corpus), batch_size, output_type="int32"
    )
    return tf.data.Dataset.zip(batches, first_rows).map(
        lambda batch, first_row: without_overlap(*batch, first_row)
    )


def _endless(
    corpus, batch_size, seed, first_epoch, first_step, make, features=None
):
    """Shuffled batches made of rows and seeds, and how many an epoch has."""
    batch_size = min(batch_size, len(corpus))
    steps_per_epoch = len(corpus) // batch_size

    def batches():
        for epoch in itertools.count(first_epoch):
            order = np.random.default_rng([seed, epoch]).permutation(
                len(corpus)
            )
            begin = first_step if epoch == first_epoch else 0
            for step in range(begin, steps_per_epoch):
                chosen = order[step * batch_size :][:batch_size]
                yield chosen, step_seed(seed, epoch, step)

    cardinality = tf.data.experimental.INFINITE_CARDINALITY
    made = _made(batches, corpus, make, features, cardinality)
    return made, steps_per_epoch


def _in_order(corpus, batch_size, make, features=None):
    """Every row once, in batches made of rows and seeds."""
    steps = -(-len(corpus) // batch_size)

    def batches():
        for step in range(steps):
            chosen = np.arange(len(corpus))[step * batch_size :][:batch_size]
            yield chosen, step_seed(0, EVALUATION, step)

    return _made(batches, corpus, make, features, steps)


def _made(generate, corpus, make, features, cardinality):
    """Batches of the numbers of rows and seeds.

    Where there are further features, the inputs are a dict.
    """
    rows = PackedRows(corpus)
    features = features and features(rows)

    def batches():
        for chosen, seed in generate():
            further = {}
            if features is not None:
                further = features(chosen, rows.sequence_length)
            yield corpus.rows[chosen], seed, further

    def with_features(rows, seed, further):
        made = make(rows, seed)
        if not further:
            return made
        if isinstance(made, dict):
            return made | further
        x, *others = made
        return x | further, *others

    batches = tf.data.Dataset.from_generator(
        batches,
        output_signature=(
            tf.TensorSpec((None, corpus.sequence_length), "int32"),
            tf.TensorSpec((2,), "int64"),
            {} if features is None else features.signature,
        ),
    )
    return made_ahead(
        batches.map(with_features, num_parallel_calls=tf.data.AUTOTUNE).apply(
            tf.data.experimental.assert_cardinality(cardinality)
        )
    )


def step_seed(seed: int, epoch: int, step: int) -> np.ndarray:
    """Two numbers that differ for every batch of a run.

    `EVALUATION` in the place of the epoch has its own.
    """
    sequence = np.random.SeedSequence([seed, epoch - EVALUATION, step])
    return sequence.generate_state(2, "uint32").astype("int64")


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
    return _of_infinite_length(pairs), len(cuts) + 1


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


def _of_infinite_length(dataset):
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

    return _of_infinite_length(_masked(batches, masker)), len(cuts) + 1


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
