"""Labels as they stand in files, to numbers."""

import collections
import math
import pathlib

import numpy as np

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.reading import numbered_lines

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


def read_label_words(path) -> tuple[str, ...]:
    """Reads the words of a label set, one a line.

    Raises:
        UsageError: if the file is missing, not UTF-8 or empty, or has a word
            twice.
    """
    path = pathlib.Path(path)
    lines = numbered_lines(path, "a label set, one label a line")
    words = tuple(line.strip() for _, line in lines if line.strip())
    counts = collections.Counter(words)
    twice = sorted(word for word, count in counts.items() if count > 1)
    if not words or twice:
        raise UsageError(
            f"{path}: expected one label a line, each once. Received: "
            f"{f'{shortened(twice)} more than once' if twice else 'none'}."
        )
    return words


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
