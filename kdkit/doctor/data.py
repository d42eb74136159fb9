"""The rows that are trained on: how long they are, which labels they have."""

import numpy as np

from kdkit.data import Examples
from kdkit.data import Questions
from kdkit.data import TokenExamples
from kdkit.data import normalized
from kdkit.data.encoding import as_given
from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import WARNING
from kdkit.doctor.findings import Finding
from kdkit.doctor.findings import share
from kdkit.tasks import MultiLabel
from kdkit.tasks import Regression
from kdkit.tasks import Task

LENGTHS = "lengths"
BALANCE = "class balance"
NOTED, WARNED = 0.01, 0.1  # shares of rows that are cut
RARE = 0.02  # share of rows below which a class is hard to learn
SHOWN = 6


def lengths_cut(splits: dict, option: str, check: str = LENGTHS) -> Finding:
    """Tells how many rows are longer than what models read of them.

    Args:
        splits: dict from what rows are to their
            `kdkit.data.EncodedExamples`, of one `sequence_length`.
        option: string. What sets the length, but for the number.
        check: string, as in `Finding`. Defaults to `"lengths"`.
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
        return Finding(check, OK, f"{found} The longest has {longest} tokens.")
    return _of_share(check, highest, found, option, length)


def texts_too_long(
    name: str,
    counts: list[int],
    length: int,
    unit: str,
    option: str,
    check: str = LENGTHS,
) -> Finding:
    """Tells how many sentences are longer than what models read of them.

    Args:
        name: string. What they are trained on for.
        counts: list of ints. How long sentences are.
        length: int. Tokens that models read, two special ones among them.
        unit: string. What is counted: `"tokens"`, or `"words"` where there is
            no tokenizer yet, so that more are cut than is said.
        option: string. What sets the length, but for the number.
        check: string, as in `Finding`. Defaults to `"lengths"`.
    """
    cut = sum(count > length - 2 for count in counts)
    found = (
        f"Step {name} cuts sentences to {length} tokens: {cut} of "
        f"{len(counts)} ({share(cut, len(counts))}) have more {unit}, the "
        f"longest {max(counts)}."
    )
    return _of_share(check, cut / len(counts), found, option, length)


def _of_share(check, cut, found, option, length):
    """What a share of rows that are cut means."""
    if cut < NOTED:
        return Finding(check, OK, found)
    return Finding(
        check,
        NOTE if cut < WARNED else WARNING,
        found,
        f"Read more of them: {option}{2 * length}",
    )


def class_balance(task: Task, labels, check: str = BALANCE) -> Finding:
    """Counts the labels of the training rows.

    Args:
        task: `kdkit.tasks.Task`.
        labels: labels as `Task.compute_metrics` takes them.
        check: string, as in `Finding`. Defaults to `"class balance"`.
    """
    if isinstance(task.kind, Regression):
        return _scores(np.asarray(labels), check)
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
    if np.count_nonzero(counts) < 2 and len(names) > 1:
        return Finding(
            check,
            RUINS,
            f"{found} One class is all there is to learn.",
            "Look at the labels in the training file.",
        )
    if absent:
        return Finding(
            check,
            WARNING,
            f"{found} No row to train on has {_listed(absent)}.",
            "Add rows of them, or the student never learns to name them.",
        )
    rare = [names[i] for i in order if counts[i] < RARE * total]
    if rare and len(names) * RARE < 1:
        return Finding(
            check,
            NOTE,
            f"{found} Rarer than {share(RARE, 1)}: {_listed(rare)}.",
            "Accuracy hides them. Look at a metric by class as well.",
        )
    return Finding(check, OK, found)


def balance_of_dev(task: Task, labels, check: str) -> Finding | None:
    """Tells of rows to choose on that have one label.

    Args:
        task: `kdkit.tasks.Task`.
        labels: labels as `Task.compute_metrics` takes them.
        check: string, as in `Finding`.

    Returns:
        A `Finding`, or `None` where there are several labels.
    """
    if not are_alike(task, labels):
        return None
    return Finding(
        check,
        WARNING,
        f"All labels of {len(labels)} rows are alike: accuracy and correlation "
        "say nothing there, neither of the teacher nor of the student.",
        "Add rows with other labels, or choose on another split: "
        "--set data.dev_split=SPLIT",
    )


def are_alike(task: Task, labels) -> bool:
    """Whether there is one label, which all rows or words have.

    Args:
        task: `kdkit.tasks.Task`.
        labels: labels as `Task.compute_metrics` takes them.
    """
    if task.kind.has_label_per_token:
        labels = as_given(np.concatenate(labels))
    labels = np.asarray(labels)
    return bool((labels == labels[:1]).all())


def _scores(labels, check):
    found = (
        f"{len(labels)} scores from {labels.min():.2f} to {labels.max():.2f}, "
        f"{labels.mean():.2f} ± {labels.std():.2f}."
    )
    if not np.ptp(labels):
        return Finding(
            check,
            RUINS,
            f"{found} One score is all there is to learn.",
            "Look at the scores in the training file.",
        )
    return Finding(check, OK, found)


def _listed(names):
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


PUNCTUATION = ".,;:!?\"'`()[]{}«»“”„‘’–—…。，、；：！？（）「」《》"


def given_texts(examples) -> list[tuple[str, ...]]:
    """Returns the texts of every row as they are, or its words.

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
    """Returns the texts of every row, in lower case, with single blanks.

    A word of `TokenExamples` has no blank: U+00A0 replaces those within, so
    that `whole_texts` can separate words from texts.

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
    """Returns the label of every row, `None` for each where there are none.

    Of words with a label each, those of punctuation alone are left out.

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
    """Returns a row's texts, words as one text, a pair's in any order.

    Args:
        row: tuple of strings, as `row_texts` returns it.
    """
    return _in_any_order(whole_texts(row))


def without_punctuation(row: tuple) -> tuple[str, ...]:
    """Returns `as_they_are` without the punctuation around words.

    Args:
        row: tuple of strings, as `row_texts` returns it.
    """
    texts = []
    for text in whole_texts(row):
        words = (word.strip(PUNCTUATION) for word in text.split())
        texts.append(" ".join(filter(None, words)) or text)
    return _in_any_order(texts)


def whole_texts(row: tuple) -> tuple[str, ...]:
    """Returns a row's texts, the words of a text as one.

    Args:
        row: tuple of strings, as `row_texts` returns it.
    """
    if any(" " in text for text in row):
        return row
    return (" ".join(row),)


def _in_any_order(texts):
    return tuple(sorted(texts) if len(texts) == 2 else texts)
