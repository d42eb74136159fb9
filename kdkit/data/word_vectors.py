"""Reads word vectors from text files such as GloVe's."""

import pathlib
from collections.abc import Sequence

import numpy as np

from kdkit.data.examples import at
from kdkit.errors import UsageError
from kdkit.io.reading import numbered_lines

CONTINUES_A_WORD = "##"  # begins word pieces inside words
BEGINS_A_WORD = (
    "Ġ",
    "▁",
)  # begin words in byte-pair and SentencePiece vocabularies
MAX_DIGITS = 9  # of the width in a header line


def read_word_vectors(path, words: Sequence[str]):
    """Reads the vectors of some words.

    The file is read line by line, and only the requested vectors are in memory.

    Args:
        path: string or path. A UTF-8 file with a word and its numbers on each
            line, separated by spaces. A first line with only two numbers, as
            in word2vec's files, is skipped.
        words: sequence of different strings; empty strings have no vector.
            They must match exactly. If the file has a word twice, its first
            vector is used.

    Returns:
        Tuple of a `float32` array of shape `(len(words), width)`, zeros for
        words that are not in the file, and a `bool` array of shape
        `(len(words),)`, true for words in the file.

    Raises:
        UsageError: (a `ValueError`) with file and line, for another number of
            numbers than in the first line, and for one that is not finite.

    References:
     - [Pennington et al., 2014](https://aclanthology.org/D14-1162)
    """
    path = pathlib.Path(path)
    places = {word: place for place, word in enumerate(words)}
    vectors = found = None
    for number, word, numbers, width in _entries(path):
        if vectors is None:
            _parse(numbers, width, path, number)  # words alone have no width
            vectors = np.zeros((len(words), width), "float32")
            found = np.zeros(len(words), bool)
        place = places.get(word)
        if place is None or found[place]:
            continue
        vectors[place] = _parse(numbers, width, path, number)
        found[place] = True
    return vectors, found


def read_all_word_vectors(path, most: int | None = None):
    """Reads all words of a file with their vectors.

    Args:
        path: string or path, as in `read_word_vectors`.
        most: int or `None`. Read only so many first words. Defaults to `None`,
            all words.

    Returns:
        Tuple of a list of strings and a `float32` array of shape
        `(num_words, width)`. If the file has a word twice, the first one.

    Raises:
        UsageError: as `read_word_vectors`, for every line that is read.
    """
    path = pathlib.Path(path)
    found = {}
    for number, word, numbers, width in _entries(path):
        if most is not None and len(found) == most:
            break
        vector = _parse(numbers, width, path, number)
        found.setdefault(word, vector)
    return list(found), np.stack(list(found.values()))


def words_of_pieces(pieces: Sequence[str]) -> list[str]:
    """Returns the word that each word piece represents, or an empty string.

    Pieces inside words, and special tokens such as `[CLS]`, are not words.

    >>> words_of_pieces(["[CLS]", "film", "##s"])
    ['', 'film', '']
    >>> words_of_pieces(["<s>", "▁film", "s"])
    ['', 'film', '']
    """
    if any(piece.startswith(BEGINS_A_WORD) for piece in pieces):
        return [
            piece[1:] if piece.startswith(BEGINS_A_WORD) else ""
            for piece in pieces
        ]
    return [
        ""
        if piece.startswith(CONTINUES_A_WORD)
        or (len(piece) > 2 and piece[0] == "[" and piece[-1] == "]")
        else piece
        for piece in pieces
    ]


def word_vector_width(path) -> int:
    """Returns the length of a file's vectors."""
    *_, width = next(_entries(path))
    return width


def _parse(numbers, width, path, line):
    with at(path, f"line {line}"):
        with np.errstate(over="ignore"):
            vector = np.array(numbers, "float64").astype("float32")
        if not 0 < width == len(numbers) or not np.isfinite(vector).all():
            raise UsageError(
                f"expected a word and {width} finite numbers. Received: "
                f"{numbers}."
            )
    return vector


def _entries(path):
    """Yields number, word, numbers and the file's width, line by line."""
    width = None
    lines = numbered_lines(path, errors="replace")
    for number, line in lines:
        fields = line.split()
        if not fields:
            continue
        if width is None and number == 1 and len(fields) == 2:
            width = _width_in_header(fields[1])
            continue
        if width is None:
            width = len(fields) - 1
        # From the right, because a few of GloVe's words contain spaces.
        word, *numbers = line.rsplit(maxsplit=width)
        yield number, word, numbers, width


def _width_in_header(text):
    """The width in a header, if it is a possible number."""
    is_number = text.isdecimal() and len(text) < MAX_DIGITS
    return int(text) if is_number else None
