"""Rows of dev and test among those that are trained on."""

import collections
import itertools
from collections.abc import Iterable

from kdkit.data import normalized
from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import WARNING
from kdkit.doctor.findings import Finding
from kdkit.doctor.findings import mildest
from kdkit.doctor.findings import share
from kdkit.doctor.findings import worst
from kdkit.doctor.row_texts import as_they_are
from kdkit.doctor.row_texts import whole_texts
from kdkit.doctor.row_texts import without_punctuation

CHECK = "rows kept apart"
NOTED, RUINOUS = 0.01, 0.1  # of a split's rows; below, chance repetitions
LEAST_WORDS = 5
LEAST_WITHIN = 8  # words of a text that is looked for inside of longer ones


def rows_kept_apart(
    train: Iterable[tuple],
    others: dict[str, list[tuple]],
    train_labels: Iterable | None = None,
    labels: dict[str, list] | None = None,
    check: str = CHECK,
) -> Finding:
    """Counts the rows of dev and test that are trained on.

    Punctuation around words makes no difference, nor does it which text of a
    pair stands first. Rows that differ in punctuation and have different
    labels are two rows: `fine :)` and `fine :(`. Where one of them has no
    label, that cannot be told: they are counted, and are a warning at most.

    Args:
        train: iterable of tuples of strings, as `row_texts` returns them.
        others: dict from the name of a split to its rows.
        train_labels: iterable of the labels of `train`, as `row_labels` returns
            them. Defaults to `None`, without labels.
        labels: dict from the name of a split to its labels. Defaults to `None`,
            without labels.
        check: string, as in `Finding`. Defaults to `"rows kept apart"`.
    """
    bare = {
        split: list(map(without_punctuation, rows))
        for split, rows in others.items()
    }
    known = {key: set() for key in set().union(*bare.values())}
    same = set()
    if train_labels is None:
        train_labels = itertools.repeat(None)
    for row, label in zip(train, train_labels, strict=False):
        if (key := without_punctuation(row)) in known:
            known[key].add(label)
            same.add(as_they_are(row))
    outcome, parts, first = OK, [], None
    for split, rows in others.items():
        own = (labels or {}).get(split) or [None] * len(rows)
        unsure, inside = 0, []
        for row, key, label in zip(rows, bare[split], own, strict=True):
            theirs = known[key] - {None}
            is_same = as_they_are(row) in same or label in theirs
            has_no_label = known[key] and (label is None or not theirs)
            unsure += bool(has_no_label and not is_same)
            if is_same or has_no_label:
                inside.append(row)
        parts.append(f"{len(inside)} of {len(rows)} in {split}")
        if unsure:
            parts[-1] += f" ({unsure} in other punctuation, without a label)"
        first = first or next(iter(inside), None)
        if inside:
            of_all = mildest(WARNING, _gravity(len(inside) / len(rows)))
            of_sure = _gravity((len(inside) - unsure) / len(rows))
            outcome = worst(outcome, of_all, of_sure)
    found = f"Also in the rows to train on: {', '.join(parts)}."
    if not parts:
        found = "There is no other split to compare the rows to train on with."
    if first is None:
        return Finding(check, outcome, found)
    return Finding(
        check,
        outcome,
        f"{found} For example {' | '.join(first)[:60]!r}.",
        "Take these rows out of the training data, or what is measured on them "
        "is memory too.",
    )


def rows_in_text(
    others: dict[str, list[tuple]], texts: Iterable[str], limit: int, check: str
) -> Finding:
    """Counts the rows of dev and test that stand in running text.

    A row does where all its texts of five words and more do, one of which it
    must have; shorter ones come again by chance. One of eight words and more
    may stand within a longer text.

    Args:
        others: dict from the name of a split to its rows, as `row_texts`
            returns them.
        texts: iterable of strings. What is trained on.
        limit: int. How many of them are read.
        check: string, as in `Finding`.
    """
    rows = {
        split: list(map(_long_texts, some)) for split, some in others.items()
    }
    by_start = collections.defaultdict(set)
    for words in {one for some in rows.values() for row in some for one in row}:
        by_start[words[:LEAST_WORDS]].add(words)
    count, known = 0, set()
    for text in itertools.islice(texts, limit):
        count += 1
        words = tuple(text.lower().split())
        for start in range(len(words) - LEAST_WORDS + 1):
            for one in by_start.get(words[start : start + LEAST_WORDS], ()):
                is_there = words[start : start + len(one)] == one
                if is_there and len(one) >= min(LEAST_WITHIN, len(words)):
                    known.add(one)
    outcome, parts, first = OK, [], None
    for split, some in rows.items():
        inside = [row for row in some if row and known.issuperset(row)]
        parts.append(f"{len(inside)} of {len(some)} rows in {split}")
        if inside:
            first = first or " ".join(inside[0][0])
            outcome = worst(outcome, _gravity(len(inside) / len(some)))
    found = (
        f"Also in the {'first ' if count == limit else ''}{count} texts: "
        f"{', '.join(parts)}."
    )
    if first is None:
        return Finding(check, OK, found)
    return Finding(
        check,
        mildest(WARNING, outcome),
        f"{found} For example {first[:60]!r}.",
        "Take them out of the text, or say with the results that the student "
        "has seen them, if without labels.",
    )


def _long_texts(row):
    """The texts of a row that are not found by chance, each as its words."""
    texts = (tuple(text.split()) for text in whole_texts(row))
    return [words for words in texts if len(words) >= LEAST_WORDS]


def texts_kept_apart(
    train: Iterable[tuple],
    held_out: Iterable[tuple],
    limit: int,
    steps: tuple[str, str],
    worst_outcome: str = RUINS,
    check: str = "texts kept apart",
) -> Finding:
    """Counts the texts to measure on that are trained on.

    Short ones are passed over, since they come again by chance.

    Args:
        train: iterable of tuples of strings: texts, or pairs of them.
        held_out: iterable likewise.
        limit: int. How many of each are read.
        steps: tuple of two strings. The step that holds out, and the one that
            trains.
        worst_outcome: string. The gravest outcome there can be. Defaults to
            `"ruins the run"`.
        check: string, as in `Finding`. Defaults to `"texts kept apart"`.
    """
    known = {
        normalized(texts)
        for texts in itertools.islice(held_out, limit)
        if sum(len(text.split()) for text in texts) >= LEAST_WORDS
    }
    count, inside = 0, set()
    for texts in itertools.islice(train, limit):
        count += 1
        if (row := normalized(texts)) in known:
            inside.add(row)
    found = (
        f"Step {steps[0]} holds out {len(known)} texts of {LEAST_WORDS} words "
        f"and more. {len(inside)} also stand in the "
        f"{'first ' if count == limit else ''}{count} that step {steps[1]} "
        "trains on."
    )
    if not inside:
        return Finding(check, OK, found)
    return Finding(
        check,
        mildest(worst_outcome, _gravity(len(inside) / len(known))),
        f"{found} For example {' | '.join(min(inside))[:60]!r}.",
        "Take them out of one of the two, or the perplexity is of text that "
        "was learned.",
    )


def _gravity(part):
    if part < NOTED:
        return NOTE
    return WARNING if part < RUINOUS else RUINS


def left_out(what: str, inside: int, count: int, check: str) -> Finding:
    """Tells of rows that a run leaves out itself.

    Args:
        what: string. What the rows are.
        inside: int. How many of them also stand in dev or test.
        count: int. How many there are.
        check: string, as in `Finding`.
    """
    if not inside:
        return Finding(
            check, OK, f"None of {count} {what} stands in dev or test."
        )
    outcome = NOTE if inside / count < RUINOUS else WARNING
    return Finding(
        check,
        outcome,
        f"{inside} of {count} {what} ({share(inside, count)}) also stand in "
        "dev or test. The run leaves them out.",
    )
