"""Words that are like a word: nearest vectors."""

from collections.abc import Sequence

import numpy as np

from kdkit.errors import UsageError

WORDS_PER_STEP = 256  # compared with all others together


class VectorNeighbors:
    """The nearest words by cosine of their vectors, without the word itself.

    Args:
        words: sequence of strings.
        vectors: float array of shape `(len(words), width)`.
        num_neighbors: int. M, how many of them.

    Raises:
        UsageError: (a `ValueError`) if there are too few words.
    """

    def __init__(self, words, vectors, num_neighbors):
        if len(words) <= num_neighbors:
            raise UsageError(
                "There must be more words than neighbours that are wanted. "
                f"Received: {len(words)} words, num_neighbors={num_neighbors}."
            )
        self._words = list(words)
        self._number = {word: place for place, word in enumerate(self._words)}
        self._vectors = _normalized(vectors)
        self._num_neighbors = num_neighbors

    def __call__(self, words: Sequence[str]) -> dict[str, list[str]]:
        """Returns the neighbours of words that are known, the nearest first."""
        known = [word for word in dict.fromkeys(words) if word in self._number]
        rows = np.array([self._number[word] for word in known], "int64")
        return dict(zip(known, self.of(self._vectors[rows], rows), strict=True))

    def of(self, vectors, numbers=None) -> list[list[str]]:
        """Returns the words nearest to vectors.

        Args:
            vectors: float array of shape `(num_vectors, width)`.
            numbers: int array of shape `(num_vectors,)`, the words that these
                are the vectors of, or `None` for vectors of other words.
        """
        vectors = _normalized(vectors)
        found = []
        for start in range(0, len(vectors), WORDS_PER_STEP):
            step = slice(start, start + WORDS_PER_STEP)
            cosines = vectors[step] @ self._vectors.T
            if numbers is not None:
                own = numbers[step]
                cosines[np.arange(len(own)), own] = -np.inf
            # Words of equal cosine in the order of the list.
            order = np.argsort(-cosines, axis=1, kind="stable")
            found += [
                [self._words[number] for number in row]
                for row in order[:, : self._num_neighbors]
            ]
        return found


def _normalized(vectors):
    """Rows of length 1; rows of zeros stay."""
    vectors = np.asarray(vectors, "float32")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
