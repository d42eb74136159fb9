"""Rows that come again, and texts that are not what they should be."""

import collections

from kdkit.data.csv_files import is_csv_quoted
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import WARNING
from kdkit.doctor.findings import Finding
from kdkit.doctor.findings import share
from kdkit.doctor.leakage import LEAST_WORDS
from kdkit.reading import has_text

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
