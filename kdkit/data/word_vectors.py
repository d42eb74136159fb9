"""Reads word vectors from text files such as GloVe's."""

import contextlib
import pathlib
from collections.abc import Sequence

import numpy as np

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
        UsageError: (a `ValueError`) if the file is missing, or a line of it
            does not have the width of the first.

    References:
     - [Pennington et al., 2014](https://aclanthology.org/D14-1162)
    """
    path = pathlib.Path(path)
    places = {word: place for place, word in enumerate(words)}
    vectors = found = None
    for number, word, numbers, width in _entries(path):
        if vectors is None:
            _parse(numbers, width, f"{path}, line {number}")  # of this width
            vectors = np.zeros((len(words), width), "float32")
            found = np.zeros(len(words), bool)
        place = places.get(word)
        if place is None or found[place]:
            continue
        vectors[place] = _parse(numbers, width, f"{path}, line {number}")
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
        vector = _parse(numbers, width, f"{path}, line {number}")
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
    """Returns the length of a file's vectors.

    Raises:
        UsageError: as `read_word_vectors`.
    """
    path = pathlib.Path(path)
    number, _, numbers, width = next(_entries(path))
    _parse(numbers, width, f"{path}, line {number}")
    return width


def _parse(numbers, width, where):
    with contextlib.suppress(ValueError):
        if width and len(numbers) == width:
            with np.errstate(over="ignore"):
                vector = np.array(numbers, "float64").astype("float32")
            if np.isfinite(vector).all():
                return vector
    raise UsageError(
        f"{where}: expected a word and {width or 'its'} finite numbers. "
        f"Received: {len(numbers)} fields after the word. Fix or remove the "
        "line."
    )


def _entries(path):
    """Yields number, word, numbers and the file's width, line by line."""
    width, is_empty = None, True
    for number, line in _lines(path):
        fields = line.split()
        if width is None and number == 1 and len(fields) == 2:
            width = _width_in_header(fields[1])
            continue
        if width is None:
            width = len(fields) - 1
        # From the right, because a few of GloVe's words contain spaces.
        word, *numbers = line.rsplit(maxsplit=width)
        yield number, word, numbers, width
        is_empty = False
    if is_empty:
        raise UsageError(
            f"{path} has no word vectors. Expected a word and its numbers on "
            "each line."
        )


def _width_in_header(text):
    """The width in a header, if it is a possible number."""
    is_number = text.isdecimal() and len(text) < MAX_DIGITS
    return int(text) if is_number else None


def _lines(path):
    """The number, from 1, and the text of every line that is not empty."""
    lines = numbered_lines(path, errors="replace")
    return ((number, line) for number, line in lines if line.strip())
