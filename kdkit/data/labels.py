"""Labels as they stand in files, to numbers."""

import collections
import math
import pathlib
import re

import numpy as np

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.reading import numbered_lines

# What separates a label from its count, its number or its name.
BETWEEN = re.compile(r"[\s,;:=]+")
LARGEST = float(np.finfo("float32").max)


def label_parser(words, separator=None):
    """Returns a function from the text of a label to its number.

    Args:
        words: tuple of the known words in the order of the class numbers, or
            `None` where labels are scores.
        separator: string or `None`. What stands between the words of a label
            that has any number of them, none included. Defaults to `None`,
            exactly one word.

    Returns:
        A callable that returns a float, an int or, with a separator, an int32
        array of zeros and ones, and raises `UsageError` for anything else.

    >>> label_parser(("bad", "good"))("good")
    1
    >>> label_parser(("joy", "fear", "anger"), ",")("anger, joy")
    array([1, 0, 1], dtype=int32)
    """
    if words is None:
        return _parse_score
    numbers = {word: number for number, word in enumerate(words)}

    def parse_word(text):
        try:
            return numbers[text.strip()]
        except KeyError:
            raise UsageError(
                f"unknown label. Expected one of {shortened(words)}. "
                f"Received: {shortened(text)}"
            ) from None

    def parse_words(text):
        present = np.zeros(len(words), "int32")
        if text.strip():
            for word in text.split(separator):
                present[parse_word(word)] = 1
        return present

    return parse_word if separator is None else parse_words


def read_label_words(path, least: int = 1) -> tuple[str, ...]:
    """Reads the words of a label set, one a line.

    Args:
        path: path of the file.
        least: int. The smallest number of labels. Defaults to 1.

    Raises:
        UsageError: if the file is missing, not UTF-8 or empty, has a word
            twice or fewer words than `least`, and with the number of a line
            that has more than a label.
    """
    path = pathlib.Path(path)
    lines = [
        (number, line.strip())
        for number, line in numbered_lines(
            path, "a label set, one label a line"
        )
        if line.strip()
    ]
    for number, line in lines:
        if "\t" in line:
            raise UsageError(
                f"{path}, line {number}: expected a label alone. Received: "
                f"{shortened(line)}, {line.count(chr(9)) + 1} columns. Remove "
                "counts, numbers and other columns next to the labels."
            )
    words = tuple(line for _, line in lines)
    counts = collections.Counter(words)
    twice = sorted(word for word, count in counts.items() if count > 1)
    if not words or twice:
        raise UsageError(
            f"{path}: expected one label a line, each once. Received: "
            f"{f'{shortened(twice)} more than once' if twice else 'none'}."
        )
    if len(words) < least:
        raise UsageError(
            f"{path}: expected at least {least} labels, one a line, in the "
            f"order of the class numbers. Received: {shortened(words[0])} "
            "alone. Write each label of the table on a line of its own."
        )
    return words


def fix_of_label_set(text: str, words, separator=None) -> str | None:
    """Returns how to fix a label set that has more on a line than the label.

    Args:
        text: string. The text of an unknown label.
        words, separator: as in `label_parser`.

    Returns:
        Two sentences; `None` where no line of the label set has the label.

    >>> fix_of_label_set("good", ("bad 12", "good 30"))
    "The label set has the line 'good 30'. If its label is 'good', remove ..."
    """
    labels = {label.strip() for label in text.split(separator or "\n")} - {""}
    for word in words or ():
        parts = {part.strip("\"'") for part in BETWEEN.split(word)}
        if word not in labels and (found := sorted(labels & parts)):
            return (
                f"The label set has the line {shortened(word)}. If its label "
                f"is {shortened(found[0])}, remove the rest of that line: a "
                "label set has a label alone on each line."
            )
    return None


def _parse_score(text):
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not abs(score) <= LARGEST:
        raise UsageError(
            "expected a number as label, of 32 bits. Received: "
            f"{shortened(text)}"
        )
    return score
