"""Reads word vectors from text files such as GloVe's."""

import itertools
import re
from collections.abc import Sequence

from kdkit.data.tables import at
from kdkit.errors import UsageError
from kdkit.io.reading import numbered_lines
from kdkit.late import np

NO_WORD = re.compile(r"##|\[.+\]\Z", re.DOTALL)  # within words, or special
# Begin words in byte-pair and SentencePiece vocabularies.
BEGINS_A_WORD = ("Ġ", "▁")


def read_word_vectors(path, words: Sequence[str]):
    """Reads the vectors of some words.

    Each line has a word and its numbers; word2vec's first line of two numbers
    is skipped. Returns an array of shape `(len(words), width)`, with zeros for
    words that are not in the file, and whether each word is in it. Only these
    vectors are in memory.

    References:
     - [Pennington et al., 2014](https://aclanthology.org/D14-1162)
    """
    vectors = dict(_vectors(path, {*words}))
    nothing = np.zeros(word_vector_width(path), "float32")
    found = np.array([word in vectors for word in words], bool)
    return np.stack([vectors.get(word, nothing) for word in words]), found


def read_all_word_vectors(path, most: int | None = None):
    """Reads all words of a file with their vectors."""
    vectors = dict(itertools.islice(_vectors(path), most))
    return list(vectors), np.stack(list(vectors.values()))


def _vectors(path, words=None):
    """Yields words with their vectors, each once: some, or all of a file."""
    seen = set()
    for number, line in numbered_lines(path, errors="replace"):
        if number == 1:
            fields = line.split()
            width = len(fields) - 1
            if width == 1:  # a header
                width = int(fields[1])
                continue
        # From the right, because a few of GloVe's words contain spaces.
        word, *numbers = line.rsplit(maxsplit=width) or [""]
        is_wanted = words is None or word in words
        if not word or word in seen or not is_wanted:
            continue
        seen.add(word)
        with at(path, f"line {number}"), np.errstate(over="ignore"):
            vector = np.array(numbers, "float64").astype("float32")
            is_vector = len(numbers) == width > 0
            if not (is_vector and np.isfinite(vector).all()):
                raise UsageError(
                    f"expected a word and {width} finite numbers. Received: "
                    f"{numbers}."
                )
        yield word, vector


def word_vector_width(path) -> int:
    """Returns the length of a file's vectors."""
    _, vector = next(_vectors(path))
    return len(vector)


def words_of_pieces(pieces: Sequence[str]) -> list[str]:
    """Returns the word that each word piece represents, or an empty string.

    Pieces inside words, and special tokens such as `[CLS]`, are not words.

    >>> words_of_pieces(["[CLS]", "film", "##s"])
    ['', 'film', '']
    >>> words_of_pieces(["<s>", "▁film", "s"])
    ['', 'film', '']
    """
    begins = [piece.startswith(BEGINS_A_WORD) for piece in pieces]
    if any(begins):
        both = zip(pieces, begins, strict=True)
        return [piece[1:] if is_begin else "" for piece, is_begin in both]
    return ["" if NO_WORD.match(piece) else piece for piece in pieces]
