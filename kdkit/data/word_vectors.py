"""Word vectors from text files, as GloVe's are."""

import contextlib
import pathlib
from collections.abc import Sequence

import numpy as np

from kdkit.errors import UsageError
from kdkit.io.reading import numbered_lines

CONTINUES_A_WORD = "##"  # first letters of word pieces inside of words
BEGINS_A_WORD = ("Ġ", "▁")  # those of byte pairs and sentence pieces
MAX_DIGITS = 9  # of the width in a header


def read_word_vectors(path, words: Sequence[str]):
    """Reads the vectors of some words.

    The file is read line by line: only the vectors that are asked for are kept
    in memory.

    Args:
        path: string or path. A UTF-8 file with a word and its numbers on each
            line, apart by blanks. A first line with two numbers alone, as
            word2vec writes it, is passed over.
        words: sequence of strings, each once; empty ones have no vector. They
            are looked up as they are. A word that the file has twice has the
            first one's vector.

    Returns:
        Tuple of a `float32` array of shape `(len(words), width)`, zeros where
        the file lacks a word, and a `bool` array of shape `(len(words),)` that
        says where it has it.

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
    """Reads the words of a file with their vectors.

    Args:
        path: string or path, as in `read_word_vectors`.
        most: int or `None`. Only so many, from the first on. Defaults to
            `None`.

    Returns:
        Tuple of a list of strings and a `float32` array of shape
        `(num_words, width)`. Of a word that the file has twice the first one.

    Raises:
        UsageError: as `read_word_vectors`, and with file and line for every
            line that is read.
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
    """Returns the word that each word piece stands for, or an empty string.

    Pieces inside of words, and special ones such as `[CLS]`, are no words.

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
    """Returns the width of a file's vectors.

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
        # From the right: a few of GloVe's words have blanks in them.
        word, *numbers = line.rsplit(maxsplit=width)
        yield number, word, numbers, width
        is_empty = False
    if is_empty:
        raise UsageError(
            f"{path} holds no word vectors. Expected a word and its numbers on "
            "each line."
        )


def _width_in_header(text):
    """Of what a header says it is, a number that vectors may have."""
    is_number = text.isdecimal() and len(text) < MAX_DIGITS
    return int(text) if is_number else None


def _lines(path):
    """Number, from 1, and text of every line that is not empty."""
    lines = numbered_lines(
        path, "a text file such as glove.6B.300d.txt", errors="replace"
    )
    return ((number, line) for number, line in lines if line.strip())
