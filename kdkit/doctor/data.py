"""Checks of the training data: lengths and labels."""

import collections

import numpy as np

from kdkit.data import Examples, Questions, TokenExamples
from kdkit.data.encoding import as_given
from kdkit.data.selection import PUNCTUATION, normalized
from kdkit.doctor.findings import NOTE, OK, RUINS, WARNING, Finding, share
from kdkit.tasks import MultiLabel, Regression, Task

LENGTHS = "lengths"
BALANCE = "class balance"
NOTED, WARNED = 0.01, 0.1  # shares of truncated examples
SHORTEST = 32  # tokens; files of a smaller length are hardly faster
RARE = 0.02  # share of examples below which a class is hard to learn
SHOWN = 6


def lengths_cut(splits: dict, option: str) -> Finding:
    """Counts the examples that are truncated.

    Args:
        splits: dict from the name of examples to their
            `kdkit.data.EncodedExamples`, with one `sequence_length`.
        option: string. The option that sets the length, without the number.
    """
    parts, highest = [], 0.0
    for name, encoded in splits.items():
        part = encoded.num_truncated / len(encoded)
        highest = max(highest, part)
        parts.append(
            f"{encoded.num_truncated} of {len(encoded)} rows of {name} "
            f"({share(part, 1)})"
        )
    length = next(iter(splits.values())).sequence_length
    longest = max(int(encoded.lengths.max()) for encoded in splits.values())
    found = f"Cut to {length} tokens: {', '.join(parts)}."
    if not highest:
        found += f" The longest has {longest} tokens."
        shorter = max(SHORTEST, 1 << (longest - 1).bit_length())
        if shorter >= length:
            return Finding(LENGTHS, OK, found)
        return Finding(
            LENGTHS,
            NOTE,
            found,
            f"Exported files pad each text to {length} tokens. For faster "
            f"files: {option}{shorter}",
        )
    return _share_finding(highest, found, option, length)


def texts_too_long(
    name: str,
    counts: list[int],
    length: int,
    unit: str,
    option: str,
) -> Finding:
    """Counts the sentences that will be truncated.

    Args:
        name: string. The step that trains on the sentences.
        counts: list of ints. The lengths of the sentences.
        length: int. The maximum length in tokens, including two special ones.
        unit: string. The unit of `counts`: `"tokens"`, or `"words"` if there
            is no tokenizer yet; more sentences are then truncated than counted.
        option: string. The option that sets the length, without the number.
    """
    cut = sum(count > length - 2 for count in counts)
    found = (
        f"Step {name} cuts sentences to {length} tokens: {cut} of "
        f"{len(counts)} ({share(cut, len(counts))}) have more {unit}, the "
        f"longest {max(counts)}."
    )
    return _share_finding(cut / len(counts), found, option, length)


def _share_finding(cut, found, option, length):
    """Returns the finding for a share of truncated examples."""
    if cut < NOTED:
        return Finding(LENGTHS, OK, found)
    return Finding(
        LENGTHS,
        NOTE if cut < WARNED else WARNING,
        found,
        f"Read more of them: {option}{2 * length}",
    )


def class_balance(task: Task, labels) -> Finding:
    """Counts the labels of the training examples.

    Args:
        task: `kdkit.tasks.Task`.
        labels: labels, as for `Task.compute_metrics`.
    """
    if isinstance(task.kind, Regression):
        return _scores(np.asarray(labels))
    names = task.class_names
    if isinstance(task.kind, MultiLabel):
        counts = np.asarray(labels).sum(axis=0)
        total = len(labels)
    else:
        if task.kind.has_label_per_token:
            labels = np.concatenate(labels)
        labels = np.asarray(labels)
        counts = np.bincount(labels[labels >= 0], minlength=len(names))
        total = int(counts.sum())
    order = np.argsort(-counts, kind="stable")
    shown = [f"{names[i]} {share(counts[i], total)}" for i in order]
    if len(shown) > SHOWN:
        shown = [*shown[: SHOWN - 1], "…", shown[-1]]
    found = f"Of {total} labels: {', '.join(shown)}."
    absent = [names[i] for i in order if not counts[i]]
    spelled = collections.Counter(map(str.casefold, names))
    alike = [names[i] for i in order if spelled[names[i].casefold()] > 1]
    if np.count_nonzero(counts) < 2 and len(names) > 1:
        return Finding(
            BALANCE,
            RUINS,
            f"{found} There is only one class to learn.",
            "Check the labels in the training file.",
        )
    if alike:
        return Finding(
            BALANCE,
            WARNING,
            f"{found} Classes that differ only in case: {_listed(alike)}.",
            "If they are one class, write its label in one way.",
        )
    if absent:
        return Finding(
            BALANCE,
            WARNING,
            f"{found} No row to train on has {_listed(absent)}.",
            "Add such rows, or the student never learns to predict them.",
        )
    rare = [names[i] for i in order if counts[i] < RARE * total]
    if rare and len(names) * RARE < 1:
        return Finding(
            BALANCE,
            NOTE,
            f"{found} Rarer than {share(RARE, 1)}: {_listed(rare)}.",
            "Accuracy hides them. Look at a metric by class as well.",
        )
    return Finding(BALANCE, OK, found)


def dev_balance(task: Task, labels, check: str) -> Finding | None:
    """Warns about dev examples that all have the same label.

    Args:
        task: `kdkit.tasks.Task`.
        labels: labels, as for `Task.compute_metrics`.
        check: string, as in `Finding`.

    Returns:
        A `Finding`, or `None` if there are several labels.
    """
    if not are_alike(task, labels):
        return None
    return Finding(
        check,
        WARNING,
        f"All labels of {len(labels)} rows are the same: accuracy and "
        "correlation show nothing there, for teacher or student.",
        "Add rows with other labels, or choose on another split: "
        "--set data.dev_split=SPLIT",
    )


def are_alike(task: Task, labels) -> bool:
    """Whether all examples or words have the same label."""
    if task.kind.has_label_per_token:
        labels = as_given(np.concatenate(labels))
    labels = np.asarray(labels)
    return bool((labels == labels[:1]).all())


def _scores(labels):
    found = (
        f"{len(labels)} scores from {labels.min():.2f} to {labels.max():.2f}, "
        f"{labels.mean():.2f} ± {labels.std():.2f}."
    )
    if not np.ptp(labels):
        return Finding(
            BALANCE,
            RUINS,
            f"{found} There is only one score to learn.",
            "Check the scores in the training file.",
        )
    return Finding(BALANCE, OK, found)


def _listed(names):
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def given_texts(examples) -> list[tuple[str, ...]]:
    """Returns the texts of every example unchanged, or its words.

    Args:
        examples: `kdkit.data.Examples`, `Questions` or `TokenExamples`.
    """
    if isinstance(examples, Examples):
        return list(zip(*examples.texts, strict=True))
    if isinstance(examples, Questions):
        columns = (examples.passages, examples.questions, examples.options)
        return [
            (passage, question, *options)
            for passage, question, options in zip(*columns, strict=True)
        ]
    return examples.words


def row_texts(examples) -> list[tuple[str, ...]]:
    """Returns the texts of every example, in lower case, with single blanks.

    Words of `TokenExamples` get U+00A0 instead of blanks, so that `whole_texts`
    can distinguish words from texts.

    Args:
        examples: as for `given_texts`.
    """
    rows = [normalized(row) for row in given_texts(examples)]
    if isinstance(examples, TokenExamples):
        return [
            tuple(word.replace(" ", "\u00a0") for word in row) for row in rows
        ]
    return rows


def row_labels(examples) -> list[tuple | None]:
    """Returns the label of every example, `None` for each without labels.

    For labels per word, ignores those of punctuation.

    Args:
        examples: as for `given_texts`.
    """
    labels = examples.labels
    if labels is None:
        return [None] * len(examples)
    if isinstance(examples, TokenExamples):
        labels = [
            [
                label
                for word, label in zip(words, some, strict=True)
                if word.strip(PUNCTUATION)
            ]
            for words, some in zip(examples.words, labels, strict=True)
        ]
    return [tuple(np.ravel(label).tolist()) for label in labels]


def as_they_are(row: tuple) -> tuple[str, ...]:
    """Returns an example's texts; words as one text, a pair's texts sorted."""
    return _in_any_order(whole_texts(row))


def without_punctuation(row: tuple) -> tuple[str, ...]:
    """Returns `as_they_are` without the punctuation around words."""
    texts = []
    for text in whole_texts(row):
        words = (word.strip(PUNCTUATION) for word in text.split())
        texts.append(" ".join(filter(None, words)) or text)
    return _in_any_order(texts)


def whole_texts(row: tuple) -> tuple[str, ...]:
    """Returns an example's texts, with words joined to one text."""
    if any(" " in text for text in row):
        return row
    return (" ".join(row),)


def _in_any_order(texts):
    return tuple(sorted(texts) if len(texts) == 2 else texts)
