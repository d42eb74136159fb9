"""Checks for repeated examples: in dev and test, in copies, in training."""

import collections
import itertools
import re
from collections.abc import Iterable

from kdkit.data.selection import normalized
from kdkit.data.tables import is_csv_quoted
from kdkit.doctor.data import as_they_are, whole_texts, without_punctuation
from kdkit.doctor.findings import (
    NOTE,
    OK,
    RUINS,
    WARNING,
    Finding,
    mildest,
    share,
    worst,
)
from kdkit.io.reading import has_text

CHECK = "rows kept apart"
NOTED, RUINOUS = 0.01, 0.1  # shares of a split; fewer may be chance
LEAST_WORDS = 5
LEAST_WITHIN = 8  # words of a text that may be part of a longer one


def rows_kept_apart(
    train: Iterable[tuple],
    others: dict[str, list[tuple]],
    train_labels: Iterable | None = None,
    labels: dict[str, list] | None = None,
) -> Finding:
    """Counts the dev and test examples that are also trained on.

    Ignores punctuation around words and the order of the texts in a pair.
    Examples that differ in punctuation and have different labels count as
    different: `fine :)` and `fine :(`. If one of them has no label, this cannot
    be decided: they are counted, but the outcome is a warning at most.

    Args:
        train: iterable of tuples of strings, from `row_texts`.
        others: dict from the name of a split to its examples.
        train_labels: iterable of the labels of `train`, from `row_labels`.
            Defaults to `None`, without labels.
        labels: dict from the name of a split to its labels. Defaults to `None`,
            without labels.
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
            all_gravity = mildest(WARNING, _gravity(len(inside) / len(rows)))
            sure_gravity = _gravity((len(inside) - unsure) / len(rows))
            outcome = worst(outcome, all_gravity, sure_gravity)
    found = f"Also in the rows to train on: {', '.join(parts)}."
    if not parts:
        found = "There is no other split to compare the rows to train on with."
    if first is None:
        return Finding(CHECK, outcome, found)
    return Finding(
        CHECK,
        outcome,
        f"{found} For example {' | '.join(first)[:60]!r}.",
        "Remove these rows from the training data, or scores on them also "
        "measure memory.",
    )


def rows_in_text(
    others: dict[str, list[tuple]], texts: Iterable[str], limit: int, check: str
) -> Finding:
    """Counts the dev and test examples that occur in running text.

    An example occurs if all its texts of at least five words do; it must have
    one. Shorter texts are repeated by chance. A text of at least eight words
    may be part of a longer text.

    Args:
        others: dict from the name of a split to its examples, from `row_texts`.
        texts: iterable of strings, the training text.
        limit: int. How many of them to read.
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
        "Remove them from the text, or state with the results that the student "
        "has seen them, if without labels.",
    )


def _long_texts(row):
    """Returns an example's texts that are too long for chance, as words."""
    texts = (tuple(text.split()) for text in whole_texts(row))
    return [words for words in texts if len(words) >= LEAST_WORDS]


def texts_kept_apart(
    train: Iterable[tuple],
    held_out: Iterable[tuple],
    limit: int,
    steps: tuple[str, str],
    worst_outcome: str = RUINS,
) -> Finding:
    """Counts the held-out texts that are also trained on.

    Ignores short texts, which are repeated by chance.

    Args:
        train: iterable of tuples of strings: texts, or pairs of texts.
        held_out: iterable of the same kind.
        limit: int. How many of each to read.
        steps: tuple of two strings. The step that holds texts out, and the step
            that trains.
        worst_outcome: string. The most severe possible outcome. Defaults to
            `"ruins the run"`.
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
        f"Step {steps[0]} holds out {len(known)} texts of at least "
        f"{LEAST_WORDS} words. {len(inside)} are also among the "
        f"{'first ' if count == limit else ''}{count} that step {steps[1]} "
        "trains on."
    )
    if not inside:
        return Finding("texts kept apart", OK, found)
    return Finding(
        "texts kept apart",
        mildest(worst_outcome, _gravity(len(inside) / len(known))),
        f"{found} For example {' | '.join(min(inside))[:60]!r}.",
        "Remove them from one of the two, or the perplexity is measured on "
        "learned text.",
    )


def _gravity(part):
    if part < NOTED:
        return NOTE
    return WARNING if part < RUINOUS else RUINS


def removed_rows(what: str, inside: int, count: int, check: str) -> Finding:
    """Reports examples that the run removes itself.

    Args:
        what: string. The name of the examples.
        inside: int. How many of them also occur in dev or test.
        count: int. How many there are.
        check: string, as in `Finding`.
    """
    if not inside:
        return Finding(
            check, OK, f"None of {count} {what} occurs in dev or test."
        )
    outcome = NOTE if inside / count < RUINOUS else WARNING
    return Finding(
        check,
        outcome,
        f"{inside} of {count} {what} ({share(inside, count)}) also occur in "
        "dev or test. The run removes them.",
    )


LEAST_COMMON = 0.25  # mean share of an example's words in its copies
LEAST_COPY_WORDS = 2  # in an example; a copy of one word may share none
LEAST_PAIRS = 4  # of characters; Chinese words mostly have at most four
# Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese use no blanks.
UNSPACED = (
    r"\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(rf"([{UNSPACED}]+)|[^\s{UNSPACED}]+")


def augmented_copies(
    copies: Iterable[tuple[int, tuple]],
    train: list[tuple],
    known: set[tuple],
) -> list[Finding]:
    """Checks that copies belong to their source examples and no others.

    In scripts without blanks, pairs of characters are compared instead of
    words. Copies of examples with one word may share no word, and are not
    compared.

    Args:
        copies: iterable of the number of an example and the texts of its copy.
        train: list of tuples of strings, the examples, from `row_texts`.
        known: set of tuples of strings. The dev and test examples.

    Returns:
        List of `Finding`: about dev and test, and about the source examples.
    """
    count = inside = compared = 0
    common = 0.0
    sources = set()
    for source, texts in copies:
        row = normalized(texts)
        count += 1
        inside += row in known
        words, pairs = _words_and_pairs(train[source])
        if len(words) < LEAST_COPY_WORDS and len(pairs) < LEAST_PAIRS:
            continue
        compared += 1
        sources.add(source)
        theirs = set().union(*_words_and_pairs(row))
        common += len((words | pairs) & theirs) / len(words | pairs)
    if not count:
        return [
            Finding(
                "augmented copies",
                RUINS,
                "The file has no copies.",
                "Make it again.",
            )
        ]
    findings = [removed_rows("copies", inside, count, "augmented copies")]
    if not compared:
        findings.append(
            Finding(
                "augmented copies",
                NOTE,
                f"All {count} copies are of rows with one word, and may share "
                "no word with them: their sources are not checked.",
            )
        )
        return findings
    mean = common / compared
    shares = (
        f"{compared} copies of {len(sources)} of {len(train)} rows contain "
        f"{share(mean, 1)} of their source rows' words."
    )
    if compared < count:
        shares += f" {count - compared} of rows with one word are not compared."
    if mean < LEAST_COMMON:
        findings.append(
            Finding(
                "augmented copies",
                RUINS,
                f"{shares} They belong to other rows, but get these rows' "
                "labels.",
                "Make the file again from this training data: kdkit augment.",
            )
        )
    else:
        findings.append(Finding("augmented copies", OK, shares))
    return findings


def _words_and_pairs(row):
    """Returns an example's words, and character pairs in unspaced scripts."""
    words, pairs = set(), set()
    for text in row:
        for run in _RUN.finditer(text):
            signs = run.group(1)
            if signs is None:
                words.add(run.group())
                continue
            last = max(len(signs) - 1, 1)  # one character is its own pair
            pairs.update(signs[start : start + 2] for start in range(last))
    return words, pairs


LEAST_SIGNS = 20  # characters, or 5 words; shorter rows repeat by chance
REPEATED, CONTRADICTED = 0.1, 0.01  # shares of a split's examples
QUOTED, EMPTY = 0.9, 0.1  # shares of a column's texts
LEAST_ROWS = 10  # examples in a split whose texts are checked
PLACES = ("first", "second")
ONCE = (
    "Remove repetitions: a repeated row counts several times, in training and "
    "in metrics."
)
LOOK_AT_LABELS = (
    "Check the labels of these rows: no model can predict two labels for one "
    "text."
)
UNQUOTE = (
    "The files of built-in tasks are read without quoting, so these quotes are "
    "part of the text. Pass the table with --train, --text-column and "
    "--label-column, which read quotes. Or write it without quoting: "
    "csv.writer with quoting=csv.QUOTE_NONE and quotechar=None."
)
FILL = "Check that column of the file, or use a task with single texts."


def repeated_rows(
    rows: dict[str, list[tuple]],
    labels: dict[str, list],
) -> Finding:
    """Counts the repeated examples of a split, and the contradictory ones.

    An example contradicts others with the same text if these have another label
    more often, or as often and earlier. Examples whose labels belong to
    different words are not compared.

    Args:
        rows: dict from the name of a split to its examples, from `row_texts`.
        labels: dict from the name of a split to its labels, from `row_labels`.
    """
    again, against, examples, advice = [], [], [], []
    for split, some in rows.items():
        found = collections.defaultdict(collections.Counter)
        for row, label in zip(some, labels[split], strict=True):
            found[tuple(row), _places(label)][label] += 1
        repeated = {
            key: counts.total() - 1
            for key, counts in found.items()
            if _is_long(key[0])
        }
        contradicted = {
            key: counts.total() - max(counts.values())
            for key, counts in found.items()
        }
        for counts, least, shown, todo in (
            (contradicted, CONTRADICTED, against, LOOK_AT_LABELS),
            (repeated, REPEATED, again, ONCE),
        ):
            total = sum(counts.values())
            if total or counts is repeated:
                part = f" ({share(total, len(some))})" if total else ""
                shown.append(f"{total} of {len(some)} in {split}{part}")
            if total and total >= least * len(some):
                advice.append(todo)
                examples.append(max(counts, key=counts.get)[0])
    said = (
        f"Repeated rows of at least {LEAST_WORDS} words or {LEAST_SIGNS} "
        f"characters: {', '.join(again)}."
    )
    if against:
        said += (
            " Rows with another label than the same text elsewhere: "
            f"{', '.join(against)}."
        )
    if not advice:
        return Finding("repeated rows", OK, said)
    return Finding(
        "repeated rows",
        WARNING,
        f"{said} For example {' | '.join(examples[0])[:60]!r}.",
        " ".join(dict.fromkeys(advice)),
    )


def _is_long(row):
    words = sum(len(text.split()) for text in row)
    return words >= LEAST_WORDS or sum(map(len, row)) >= LEAST_SIGNS


def _places(label):
    """Returns which words of an example have a label, for labels per word."""
    if label is None or len(label) < 2:
        return None
    return tuple(one >= 0 for one in label)


def odd_texts(
    rows: dict[str, list[tuple]], check: str = "texts"
) -> Finding | None:
    """Looks for texts that a CSV writer quoted, and for empty texts.

    A CSV writer quotes texts that contain quotes, and doubles these quotes, or
    it quotes all texts. The first kind is reported from one text on, the second
    from nine tenths of a split on.

    Args:
        rows: dict from the name of a split to its examples of one or two texts,
            from `row_texts`.
        check: string, as in `Finding`. Defaults to `"texts"`.

    Returns:
        A `Finding`, or `None` if there are no such texts.
    """
    said, advice = [], []
    for split, some in rows.items():
        for place, texts in zip(PLACES, zip(*some, strict=True), strict=False):
            which = f"The {place} text" if len(some[0]) > 1 else "The text"
            for count, what, todo in _oddities(texts):
                said.append(
                    f"{which} {what} in {count} of {len(texts)} rows of "
                    f"{split} ({share(count, len(texts))})."
                )
                advice.append(todo)
    if not said:
        return None
    return Finding(
        check, WARNING, " ".join(said), " ".join(dict.fromkeys(advice))
    )


def _oddities(texts):
    """Yields the number of odd texts, what is odd, and the advice."""
    all_quoted = sum(map(_is_quoted, texts))
    csv_quoted = [text for text in texts if is_csv_quoted(text)]
    empty = sum(not has_text(text) for text in texts)
    is_whole = len(texts) >= LEAST_ROWS
    if is_whole and all_quoted >= QUOTED * len(texts):
        yield all_quoted, 'is within "…"', UNQUOTE
    elif csv_quoted:
        yield (
            len(csv_quoted),
            f"is quoted by a CSV writer, such as {csv_quoted[0][:60]},",
            UNQUOTE,
        )
    if is_whole and empty >= EMPTY * len(texts):
        yield empty, "is empty", FILL


def _is_quoted(text):
    return len(text) > 1 and text[0] == text[-1] == '"'
