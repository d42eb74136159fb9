"""Repeated examples: in dev and test, among copies, in the training data."""

import collections
import itertools
import re
from collections.abc import Iterable

from kdkit.data import normalized
from kdkit.data.examples import is_csv_quoted
from kdkit.doctor.data import as_they_are
from kdkit.doctor.data import whole_texts
from kdkit.doctor.data import without_punctuation
from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import WARNING
from kdkit.doctor.findings import Finding
from kdkit.doctor.findings import mildest
from kdkit.doctor.findings import share
from kdkit.doctor.findings import worst
from kdkit.io.reading import has_text

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


LEAST_COMMON = 0.25  # words that a copy has of its row, on the whole
LEAST_COPY_WORDS = 2  # of a row; the copy of one word is another word
LEAST_PAIRS = 4  # of signs; a word of Chinese has four signs at most, mostly
# Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese have no blanks.
UNSPACED = (
    r"\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(rf"([{UNSPACED}]+)|[^\s{UNSPACED}]+")


def copies_of_rows(
    copies: Iterable[tuple[int, tuple]],
    train: list[tuple],
    known: set[tuple],
    check: str = "augmented copies",
) -> list[Finding]:
    """Looks whether copies are of the rows that they name, and of no other.

    In scripts without blanks, pairs of signs stand for words. Copies of rows of
    one word may have nothing of it, and are not compared.

    Args:
        copies: iterable of the number of a row and the texts of its copy.
        train: list of tuples of strings, the rows, as `row_texts` has them.
        known: set of tuples of strings. The rows of dev and test.
        check: string, as in `Finding`. Defaults to `"augmented copies"`.

    Returns:
        List of `Finding`: of dev and test, and of the rows they were made of.
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
            Finding(check, RUINS, "The file has no copies.", "Make it anew.")
        ]
    findings = [left_out("copies", inside, count, check)]
    if not compared:
        findings.append(
            Finding(
                check,
                NOTE,
                f"All {count} copies are of rows of one word, of which they "
                "may have nothing: whether they are of these rows is not "
                "compared.",
            )
        )
        return findings
    mean = common / compared
    alike = (
        f"{compared} copies of {len(sources)} of {len(train)} rows have "
        f"{share(mean, 1)} of the words of the rows that they name."
    )
    if compared < count:
        alike += f" {count - compared} of rows of one word are not compared."
    if mean < LEAST_COMMON:
        findings.append(
            Finding(
                check,
                RUINS,
                f"{alike} They are of other rows, and get these rows' labels.",
                "Make the file anew from this training data: kdkit augment.",
            )
        )
    else:
        findings.append(Finding(check, OK, alike))
    return findings


def _words_and_pairs(row):
    """The words of a row, and its pairs of signs where there are no blanks."""
    words, pairs = set(), set()
    for text in row:
        for run in _RUN.finditer(text):
            signs = run.group(1)
            if signs is None:
                words.add(run.group())
                continue
            last = max(len(signs) - 1, 1)  # one sign stands for itself
            pairs.update(signs[start : start + 2] for start in range(last))
    return words, pairs


LEAST_SIGNS = 20  # or 5 words of a row; shorter ones come again by chance
REPEATED, CONTRADICTED = 0.1, 0.01  # shares of a split's rows
QUOTED, EMPTY = 0.9, 0.1  # shares of a column's texts
LEAST_ROWS = 10  # of a split whose texts are looked at
PLACES = ("first", "second")
ONCE = (
    "Keep each row once: one that comes again counts as many times, in "
    "training and in what is measured."
)
LOOK_AT_LABELS = (
    "Look at the labels of these rows: no model gives one text two answers."
)
UNQUOTE = (
    "Tables are read without quoting, so these quotes are part of the text. "
    'Write the file without quoting: DataFrame.to_csv(FILE, sep="\\t", '
    "index=False, quoting=csv.QUOTE_NONE), or csv.writer with "
    "quoting=csv.QUOTE_NONE and quotechar=None."
)
FILL = "Look at that column of the file, or take a task of single texts."


def repeated_rows(
    rows: dict[str, list[tuple]],
    labels: dict[str, list],
    check: str = "repeated rows",
) -> Finding:
    """Counts the rows that come again in a split, and those of two minds.

    A row is against the others of its text where these have another label more
    often, or as often and before. Words with labels at other places make
    another row.

    Args:
        rows: dict from the name of a split to its rows, as `row_texts` returns
            them.
        labels: dict from the name of a split to its labels, as `row_labels`
            returns them.
        check: string, as in `Finding`. Defaults to `"repeated rows"`.
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
        f"Rows of {LEAST_WORDS} words or {LEAST_SIGNS} signs that come again: "
        f"{', '.join(again)}."
    )
    if against:
        said += (
            " Rows with another label than the same text elsewhere: "
            f"{', '.join(against)}."
        )
    if not advice:
        return Finding(check, OK, said)
    return Finding(
        check,
        WARNING,
        f"{said} For example {' | '.join(examples[0])[:60]!r}.",
        " ".join(dict.fromkeys(advice)),
    )


def _is_long(row):
    words = sum(len(text.split()) for text in row)
    return words >= LEAST_WORDS or sum(map(len, row)) >= LEAST_SIGNS


def _places(label):
    """Which words of a row have a label, where words have them."""
    if label is None or len(label) < 2:
        return None
    return tuple(one >= 0 for one in label)


def odd_texts(
    rows: dict[str, list[tuple]], check: str = "texts"
) -> Finding | None:
    """Looks for texts that a CSV writer quoted, and for empty ones.

    A CSV writer quotes the texts that contain quotes, and doubles these, or it
    quotes all texts. One text of the first kind is reported; of the second,
    nine tenths of a split.

    Args:
        rows: dict from the name of a split to its rows of one text or of two,
            as `row_texts` returns them.
        check: string, as in `Finding`. Defaults to `"texts"`.

    Returns:
        A `Finding`, or `None` where nothing is odd.
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
    """Yields how many texts are odd, in which way, and what to do."""
    all_quoted = sum(map(_is_quoted, texts))
    csv_quoted = [text for text in texts if is_csv_quoted(text)]
    empty = sum(not has_text(text) for text in texts)
    is_whole = len(texts) >= LEAST_ROWS
    if is_whole and all_quoted >= QUOTED * len(texts):
        yield all_quoted, 'stands within "…"', UNQUOTE
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
