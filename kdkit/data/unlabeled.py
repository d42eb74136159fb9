"""Reads unlabelled examples, and mixes them with labelled ones."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from kdkit.data.encoding import EncodedExamples
from kdkit.data.selection import normalized, normalized_rows
from kdkit.data.tables import Examples
from kdkit.data.texts import read_rows


def read_unlabeled(
    files: Iterable, columns: tuple[str, ...], num_texts: int
) -> Examples:
    """Reads unlabelled examples: lines of files, or columns of tables."""
    texts = tuple([] for _ in range(num_texts))
    for file in files:
        for _, row in read_rows(file, columns, finds_quotes=True):
            if any(row):
                for column, text in zip(texts, row, strict=True):
                    column.append(text)
    return Examples(texts)


def without_texts_of(
    examples: Examples, others: Iterable[Examples]
) -> Examples:
    """Removes the examples whose texts are also in other splits.

    Letter case and spaces are ignored.

    >>> kept = without_texts_of(
    ...     Examples((["A fine film", "a dull film"],)),
    ...     [Examples((["a  fine film"],))],
    ... )
    >>> kept.texts
    (['a dull film'],)
    """
    known = normalized_rows(others)
    return examples.take(
        [
            number
            for number, row in enumerate(examples.rows)
            if normalized(row) not in known
        ]
    )


def mix_unlabeled(
    labeled: EncodedExamples,
    unlabeled: EncodedExamples,
    per_labeled: float,
    rows_of_epoch=None,
):
    """Joins labelled and unlabelled examples, and chooses those of an epoch.

    An epoch has its labelled examples and a share of the unlabelled ones, which
    take turns from epoch to epoch in a random order, none twice in an epoch.
    Unlabelled examples have the label 0 and the `label_weight` 0. All examples
    are in memory, even if the labelled ones were mapped from a file.
    """
    num_labeled, num_unlabeled = len(labeled), len(unlabeled)

    def rows(seed, epoch):
        once = np.arange(num_labeled)
        if rows_of_epoch is not None:
            once = rows_of_epoch(seed, epoch)
        share = unlabeled_rows(len(once), num_unlabeled, per_labeled)
        order = np.random.default_rng([seed, 1]).permutation(num_unlabeled)
        turn = (epoch * share + np.arange(share)) % num_unlabeled
        return np.concatenate([once, num_labeled + np.sort(order[turn])])

    no_labels = np.zeros(
        (num_unlabeled, *labeled.labels.shape[1:]), labeled.labels.dtype
    )
    joined = {
        name: np.concatenate([getattr(labeled, name), getattr(unlabeled, name)])
        for name in ("token_ids", "segment_ids", "lengths")
    }
    examples = dataclasses.replace(
        labeled,
        **joined,
        labels=np.concatenate([labeled.labels, no_labels]),
        label_weights=np.repeat(
            np.array([1, 0], "float32"), [num_labeled, num_unlabeled]
        ),
    )
    return examples, rows


def unlabeled_rows(
    num_labeled: int, num_unlabeled: int, per_labeled: float
) -> int:
    """Returns the number of unlabelled examples in an epoch.

    >>> unlabeled_rows(100, 1000, 0.5), unlabeled_rows(100, 1000, 20.0)
    (50, 1000)
    """
    return max(1, round(min(per_labeled * num_labeled, num_unlabeled)))


def repeated_rows(num_rows: int, num_drawn: int, rows_of_epoch=None):
    """Returns a function from seed and epoch to equally frequent examples.

    If the numbers do not divide, some examples occur once more, different ones
    in every epoch.

    >>> rows = repeated_rows(3, 7)(seed=0, epoch=0)
    >>> sorted(np.bincount(rows).tolist())
    [2, 2, 3]
    """

    def rows(seed, epoch):
        once = np.arange(num_rows)
        if rows_of_epoch is not None:
            once = rows_of_epoch(seed, epoch)
        passes, rest = divmod(num_drawn, len(once))
        drawn = np.random.default_rng([seed, epoch, 2]).permutation(once)
        return np.concatenate([np.tile(once, passes), np.sort(drawn[:rest])])

    return rows
