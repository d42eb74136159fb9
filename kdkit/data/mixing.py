"""Labelled and unlabelled rows in one epoch."""

import dataclasses

import numpy as np

from kdkit.data.batching import INPUT_NAMES
from kdkit.data.batching import training_batches
from kdkit.data.encoding import EncodedExamples
from kdkit.data.shares import WHOLE
from kdkit.data.shares import Shares
from kdkit.errors import UsageError


def mixed_training_batches(
    labeled: EncodedExamples,
    unlabeled: EncodedExamples,
    per_labeled: float,
    batch_size: int,
    seed: int,
    first_epoch: int = 0,
    num_buckets: int | None = 8,
    input_names: tuple[str, ...] = INPUT_NAMES,
    rows_of_epoch=None,
    features=None,
    shares: Shares = WHOLE,
    first_step: int = 0,
):
    """Returns endless shuffled batches of labelled and unlabelled rows.

    An epoch has every labelled row once, unless said otherwise, and a share of
    the unlabelled ones,
    which come in turn from epoch to epoch, in an order drawn with the seed.
    The inputs have `label_weight` beside their names, `float32` of shape
    `(batch,)`: 1 where the label counts, 0 where there is none and a zero
    stands in its place.

    Args:
        labeled: `EncodedExamples` with labels.
        unlabeled: `EncodedExamples` of the same tokenizer and task.
        per_labeled: float. Unlabelled rows of an epoch for each labelled one.
            An epoch has at least one of them, and none twice.
        batch_size, seed, first_epoch, num_buckets, input_names: as in
            `training_batches`.
        rows_of_epoch: callable or `None`, as in `training_batches`, of the
            labelled rows.
        features: as in `training_batches`, of all rows together.
        shares, first_step: as in `training_batches`.

    Returns:
        Tuple of a `tf.data.Dataset` and the number of batches in an epoch, as
        of `training_batches`.

    Raises:
        UsageError: (a `ValueError`) if `per_labeled` is not above 0.
    """
    if not per_labeled > 0:
        raise UsageError(
            "The proportion of unlabelled to labelled rows must be above 0. "
            f"Received: {per_labeled}."
        )
    num_labeled, num_unlabeled = len(labeled), len(unlabeled)
    if rows_of_epoch is None:

        def rows_of_epoch(epoch):
            return np.arange(num_labeled)

    share = unlabeled_rows(len(rows_of_epoch(0)), num_unlabeled, per_labeled)
    order = np.random.default_rng([seed, 1]).permutation(num_unlabeled)

    def all_rows_of_epoch(epoch):
        turn = (epoch * share + np.arange(share)) % num_unlabeled
        drawn = num_labeled + np.sort(order[turn])
        return np.concatenate([rows_of_epoch(epoch), drawn])

    return training_batches(
        _joined(labeled, unlabeled),
        batch_size,
        seed,
        first_epoch,
        num_buckets,
        input_names=input_names,
        rows_of_epoch=all_rows_of_epoch,
        features=features,
        shares=shares,
        first_step=first_step,
    )


def unlabeled_rows(
    num_labeled: int, num_unlabeled: int, per_labeled: float
) -> int:
    """Returns how many unlabelled rows an epoch has.

    >>> unlabeled_rows(100, 1000, 0.5), unlabeled_rows(100, 1000, 20.0)
    (50, 1000)
    """
    return max(1, round(min(per_labeled * num_labeled, num_unlabeled)))


def repeated_rows(num_rows: int, num_drawn: int, seed: int, rows_of_epoch=None):
    """Returns a function from an epoch to rows, each as often as the others.

    As far as it goes: of the last pass some are drawn, anew in each epoch.

    Args:
        num_rows: int. How many rows there are.
        num_drawn: int. How many an epoch has.
        seed: int. Seed of those that are drawn.
        rows_of_epoch: callable or `None`, as in `training_batches`. Those of
            the rows that an epoch has once.

    >>> rows = repeated_rows(3, 7, seed=0)(0)
    >>> sorted(np.bincount(rows).tolist())
    [2, 2, 3]
    """

    def rows(epoch):
        once = np.arange(num_rows)
        if rows_of_epoch is not None:
            once = rows_of_epoch(epoch)
        passes, rest = divmod(num_drawn, len(once))
        drawn = np.random.default_rng([seed, epoch, 2]).permutation(once)
        return np.concatenate([np.tile(once, passes), np.sort(drawn[:rest])])

    return rows


def _joined(labeled, unlabeled):
    """All rows one after the other; those without label have weight 0.

    They are in memory, also where the labelled ones were mapped from a file.
    """
    no_labels = np.zeros(
        (len(unlabeled), *labeled.labels.shape[1:]), labeled.labels.dtype
    )
    joined = {
        name: np.concatenate([getattr(labeled, name), getattr(unlabeled, name)])
        for name in ("token_ids", "segment_ids", "lengths")
    }
    return dataclasses.replace(
        labeled,
        **joined,
        labels=np.concatenate([labeled.labels, no_labels]),
        label_weights=np.repeat(
            np.array([1, 0], "float32"), [len(labeled), len(unlabeled)]
        ),
    )
