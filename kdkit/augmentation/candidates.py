"""Candidates for a word: the masked language model's, and nearest vectors."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from kdkit import models
from kdkit.data.encoding import tokenize
from kdkit.errors import UsageError
from kdkit.late import keras, ops, tf
from kdkit.taps import select_inputs

TOKENS_PER_STEP = 2048  # in a batch, including padding
# Padded lengths; each is compiled once by XLA.
LENGTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
NEVER = -1e9  # logit of a piece that is not a whole word


@dataclasses.dataclass(frozen=True)
class Query:
    """A position in a text for which the model predicts words.

    Args:
        token_ids: int array of shape `(num_pieces,)`. The pieces of a text,
            without special tokens.
        position: int. The index of the piece to mask, from 0.
    """

    token_ids: np.ndarray
    position: int


class MaskedWords:
    """Predicts the most probable words for a masked position.

    Texts are sorted by length, padded to few lengths and predicted together;
    the head only computes the masked positions.

    Args:
        model: a masked language model from `kdkit.models.load_masked_lm`.
        tokenizer: its word-piece tokenizer.
        num_words: int. M, the number of words.
        with_original: bool. Whether the unmasked text follows as a second
            segment, as in the TinyBERT authors' code. It is truncated to the
            positions after the masked text, which may leave none of it.
            Defaults to `False`.
        tokens_per_step: int. Number of tokens predicted together, including
            padding. Defaults to `2048`.
    """

    def __init__(
        self,
        model: "keras.Model",
        tokenizer,
        num_words: int,
        with_original: bool = False,
        tokens_per_step: int = TOKENS_PER_STEP,
    ):
        if models.as_tokenizer(tokenizer).kind != "WordPiece":
            raise UsageError(
                "Candidates would be parts of words. Augmentation needs a "
                "model with word pieces, such as a BERT."
            )
        pieces = tokenizer.get_vocabulary()
        whole = np.array([is_word(piece) for piece in pieces])
        if whole.sum() < num_words:
            raise UsageError(
                f"The vocabulary has only {whole.sum()} whole words. Received: "
                f"num_words={num_words}."
            )
        self._tokenizer = tokenizer
        self._num_words = num_words
        self._with_original = with_original
        self._tokens_per_step = tokens_per_step
        self._longest = models.num_positions(model) or max(LENGTHS)
        self._lengths = np.array(
            [length for length in LENGTHS if length < self._longest]
            + [self._longest]
        )
        penalty = np.where(whole, 0.0, NEVER).astype("float32")

        def best(token_ids, segment_ids, padding_mask, positions):
            inputs = {
                "token_ids": token_ids,
                "segment_ids": segment_ids,
                "padding_mask": padding_mask,
                "mask_positions": positions[:, None],
            }
            logits = model(select_inputs(model, inputs), training=False)
            logits = ops.cast(logits[:, 0], "float32") + penalty
            # Sorted by id, so that rounding does not change the order.
            return ops.sort(ops.top_k(logits, num_words)[1])

        def program(batch_size, length):
            by_place = tf.TensorSpec((batch_size, length), "int32")
            return tf.function(best, jit_compile=True).get_concrete_function(
                by_place, by_place, by_place, tf.TensorSpec(batch_size, "int32")
            )

        # One program for each length that occurs.
        self._program = functools.cache(program)

    @property
    def most_pieces(self) -> int:
        """The number of pieces up to which texts are read."""
        return self._longest - (1 if self._with_original else 2)

    def __call__(self, queries: Sequence[Query]) -> np.ndarray:
        """Returns the ids of the best words.

        Args:
            queries: sequence of `Query`s. Each position must be within
                `most_pieces`; later pieces of the text are ignored.

        Returns:
            `int32` array of shape `(num_queries, num_words)`, sorted by id.
        """
        rows = [self._row(query) for query in queries]
        lengths = np.array([len(row) for row, _, _ in rows])
        padded = self._lengths[np.searchsorted(self._lengths, lengths)]
        found = np.zeros((len(queries), self._num_words), "int32")
        left_over = np.empty(0, "int64")
        for length in np.unique(padded):
            numbers = [left_over, np.flatnonzero(padded == length)]
            numbers = np.concatenate(numbers)
            batch_size = max(1, self._tokens_per_step // length)
            # Rows that do not fill a batch move to the next length.
            end = len(numbers)
            if length < padded.max():
                end -= end % batch_size
            left_over = numbers[end:]
            for start in range(0, end, batch_size):
                chosen = numbers[start : min(start + batch_size, end)]
                found[chosen] = self._predict(
                    [rows[number] for number in chosen], length, batch_size
                )
        return found

    def _row(self, query):
        """Returns a query's row, its position, and the length of segment 0."""
        tokenizer = self._tokenizer
        text = np.asarray(query.token_ids[: self.most_pieces], "int32")
        masked = text.copy()
        masked[query.position] = tokenizer.mask_token_id
        start, end = tokenizer.start_token_id, tokenizer.end_token_id
        parts = [[start], masked, [end]]
        if self._with_original:
            parts += [text, [end]]
        row = np.concatenate(parts)[: self._longest]
        return row, query.position + 1, min(len(text) + 2, len(row))

    def _predict(self, rows, length, batch_size):
        """Predicts a batch of fixed shape; rows that only fill it are cut."""
        token_ids = np.full(
            (batch_size, length), self._tokenizer.pad_token_id, "int32"
        )
        padding_mask = np.zeros((batch_size, length), "int32")
        segment_ids = np.zeros((batch_size, length), "int32")
        positions = np.zeros(batch_size, "int32")
        padding_mask[:, 0] = 1  # for rows that only fill the batch
        for place, (row, position, first) in enumerate(rows):
            token_ids[place, : len(row)] = row
            padding_mask[place, : len(row)] = 1
            positions[place] = position
            segment_ids[place, first : len(row)] = 1
        best = self._program(batch_size, int(length))(
            *map(tf.constant, (token_ids, segment_ids, padding_mask, positions))
        )
        return np.asarray(best)[: len(rows)]


def is_word(piece: str) -> bool:
    """Whether a piece is a whole word of letters."""
    return piece.isalpha()


WORDS_PER_STEP = 256  # number compared with all other words together


class VectorNeighbors:
    """The nearest words by cosine similarity, without the word itself.

    Args:
        words: sequence of strings.
        vectors: float array of shape `(len(words), width)`.
        num_neighbors: int. M, the number of neighbours.

    Raises:
        UsageError: (a `ValueError`) if there are not enough words.
    """

    def __init__(self, words, vectors, num_neighbors):
        if len(words) <= num_neighbors:
            raise UsageError(
                f"{len(words)} words have no {num_neighbors} neighbours each."
            )
        self._words = list(words)
        self._number = {word: place for place, word in enumerate(self._words)}
        self._vectors = _normalized(vectors)
        self._num_neighbors = num_neighbors

    def __call__(self, words: Sequence[str]) -> dict[str, list[str]]:
        """Returns the neighbours of known words, the nearest first."""
        known = [word for word in dict.fromkeys(words) if word in self._number]
        rows = np.array([self._number[word] for word in known], "int64")
        return dict(zip(known, self.of(self._vectors[rows], rows), strict=True))

    def of(self, vectors, numbers=None) -> list[list[str]]:
        """Returns the words nearest to vectors.

        Args:
            vectors: float array of shape `(num_vectors, width)`.
            numbers: int array of shape `(num_vectors,)`, the words to which the
                vectors belong, or `None` for vectors of other words.
        """
        vectors = _normalized(vectors)
        found = []
        for start in range(0, len(vectors), WORDS_PER_STEP):
            step = slice(start, start + WORDS_PER_STEP)
            cosines = vectors[step] @ self._vectors.T
            if numbers is not None:
                own = numbers[step]
                cosines[np.arange(len(own)), own] = -np.inf
            # Words with equal similarity in the order of the list.
            order = np.argsort(-cosines, axis=1, kind="stable")
            found += [
                [self._words[number] for number in row]
                for row in order[:, : self._num_neighbors]
            ]
        return found


def _normalized(vectors):
    """Normalizes rows to length 1; zeros stay zeros."""
    vectors = np.asarray(vectors, "float32")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


class PieceNeighbors:
    """The nearest whole words in a vocabulary, by a model's embeddings.

    The vector of a word of several pieces is the mean of their embeddings.

    Args:
        model: `keras.Model` with an encoder.
        tokenizer: its word-piece tokenizer.
        num_neighbors: int. M, the number of neighbours.
        known: callable from words to a dict of the neighbours of known words,
            which is used first, or `None`.
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
        """Returns the neighbours of the words, the nearest first."""
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
