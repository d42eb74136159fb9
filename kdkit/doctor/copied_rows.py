"""Whether augmented copies are of the rows that they name."""

import re
from collections.abc import Iterable

from kdkit.data import normalized
from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import Finding
from kdkit.doctor.findings import share
from kdkit.doctor.leakage import left_out

LEAST_COMMON = 0.25  # words that a copy has of its row, on the whole
LEAST_WORDS = 2  # of a row; the copy of one word is another word
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
        if len(words) < LEAST_WORDS and len(pairs) < LEAST_PAIRS:
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
