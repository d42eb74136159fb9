"""Batches of packed rows, masked or as they stand."""

import itertools

import numpy as np

from kdkit.backends import tf
from kdkit.data.ahead import made_ahead
from kdkit.data.masking import Masker
from kdkit.data.packed_rows import PackedRows
from kdkit.data.packed_rows import next_tokens
from kdkit.data.packed_rows import plain
from kdkit.data.packing import PackedCorpus

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
