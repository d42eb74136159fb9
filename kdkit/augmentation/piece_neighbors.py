"""Words like a word that no list of vectors has: by the model's embeddings."""

from collections.abc import Sequence

import keras
import numpy as np

from kdkit import models
from kdkit.augmentation.masked_words import is_word
from kdkit.augmentation.neighbors import VectorNeighbors
from kdkit.data.encoding import tokenize


class PieceNeighbors:
    """The nearest whole words of a vocabulary, by the embeddings of a model.

    A word of several pieces stands where the mean of their embeddings is.

    Args:
        model: `keras.Model` with an encoder.
        tokenizer: its tokenizer, of word pieces.
        num_neighbors: int. M, how many of them.
        known: callable from words to a dict of the neighbours of those that it
            knows, which is asked first, or `None`.
    """

    def __init__(
        self, model: "keras.Model", tokenizer, num_neighbors: int, known=None
    ):
        pieces = tokenizer.get_vocabulary()
        self._table = models.token_embeddings(model)[: len(pieces)]
        whole = [number for number, one in enumerate(pieces) if is_word(one)]
        self._nearest = VectorNeighbors(
            [pieces[number] for number in whole],
            self._table[whole],
            num_neighbors,
        )
        self._tokenizer = tokenizer
        self._known = known

    def __call__(self, words: Sequence[str]) -> dict[str, list[str]]:
        """Returns the neighbours of words, the nearest first."""
        words = list(dict.fromkeys(words))
        found = self._known(words) if self._known is not None else {}
        missing = [word for word in words if word not in found]
        if not missing:
            return found
        pieces = tokenize(missing, self._tokenizer)
        vectors = np.stack(
            [self._table[pieces[word]].mean(axis=0) for word in missing]
        )
        near = self._nearest.of(vectors)
        return {**found, **dict(zip(missing, near, strict=True))}
