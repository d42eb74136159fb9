"""Labels as they stand in files, to numbers."""

import math
import pathlib

import numpy as np

from kdkit.errors import UsageError


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
                f"unknown label. Expected one of {tuple(words)}. "
                f"Received: {text!r}"
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
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"Cannot read the label set in {path}: {error}. Expected a UTF-8 "
            "file with one label a line."
        ) from error
    words = tuple(line.strip() for line in lines if line.strip())
    twice = sorted({word for word in words if words.count(word) > 1})
    if not words or twice:
        raise UsageError(
            f"{path}: expected one label a line, each once. Received: "
            f"{f'{twice} more than once' if twice else 'none'}."
        )
    return words


def _parse_score(text):
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise UsageError(f"expected a number as label. Received: {text!r}")
    return score
