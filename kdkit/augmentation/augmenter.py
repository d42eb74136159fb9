"""TinyBERT's data augmentation: replaces words by fitting or similar words.

Jiao et al., 2019, https://arxiv.org/abs/1909.10351, algorithm 1: each word is
replaced with probability p_t, by one of its M candidates with equal
probability.
"""

import dataclasses
import functools
import re
from collections.abc import Collection, Sequence

import numpy as np

from kdkit.augmentation.candidates import MaskedWords, Query
from kdkit.data.encoding import tokenize
from kdkit.errors import UsageError
from kdkit.late import LateModule

scikit_text = LateModule("sklearn.feature_extraction.text", "scikit-learn")

UNKNOWN = "[UNK]"
# A run of letters and digits, or any other visible character alone, as BERT
# splits texts before it looks for word pieces.
_WORD = re.compile(r"[^\W_]+|[^\s]")


class Augmenter:
    """Makes copies of texts with some words replaced.

    A word that is one piece is replaced by one of the model's most probable
    words at its position. A word of several pieces is replaced by one of the
    words nearest to it. Stop words, punctuation, numbers, and words beyond the
    model's positions do not change. The copies of a text depend on the seed and
    the number of its example, not on the other texts.

    Args:
        masked_words: `MaskedWords`.
        neighbors: callable from a list of words to a dict from each known word
            to a list of words.
        tokenizer: the tokenizer of `masked_words`.
        num_copies: int. N, the number of copies per text. Defaults to `20`.
        probability: float. p_t, the probability that a replaceable word is
            replaced. Defaults to `0.4`.
        sequential: bool. Whether each prediction sees the replacements made so
            far, as in algorithm 1 read literally. Otherwise candidates are
            computed once, from the original text, as in the authors' code.
            Defaults to `False`.
        stop_words: collection of lower-case strings. Defaults to
            scikit-learn's English ones.
        seed: int. Defaults to `0`.

    Raises:
        UsageError: (a `ValueError`) if `num_copies` or `probability` is out of
            range.
    """

    def __init__(
        self,
        masked_words: MaskedWords,
        neighbors,
        tokenizer,
        num_copies: int = 20,
        probability: float = 0.4,
        sequential: bool = False,
        stop_words: Collection[str] | None = None,
        seed: int = 0,
    ):
        if num_copies < 1 or not 0 <= probability <= 1:
            raise UsageError(
                "num_copies must be at least 1, probability from 0 to 1. "
                f"Received: {num_copies=}, {probability=}."
            )
        self._num_copies, self._probability = num_copies, probability
        self._draw = self._in_turn if sequential else self._at_once
        self._masked_words = masked_words
        self._neighbors = neighbors
        self._tokenize = functools.partial(tokenize, tokenizer=tokenizer)
        self._vocabulary = tokenizer.get_vocabulary()
        self._unknown = tokenizer.token_to_id(UNKNOWN)
        if stop_words is None:
            stop_words = scikit_text.ENGLISH_STOP_WORDS
        self._stop_words = stop_words
        self._seed = seed

    def __call__(
        self, texts: Sequence[str], first_row: int = 0, column: int = 0
    ) -> list[list[str]]:
        """Returns the copies of each text, without duplicates.

        Args:
            texts: sequence of strings.
            first_row: int. The number of the first text's example. Defaults to
                `0`.
            column: int. Which text of its example it is. Defaults to `0`.

        Returns:
            A list of lists of at most `num_copies` strings, none of them the
            text itself.
        """
        generators = [
            np.random.default_rng([self._seed, first_row + number, column])
            for number in range(len(texts))
        ]
        parsed = self._parse(texts)
        drawn = self._draw(parsed, generators)
        return [
            [
                copy
                for copy in dict.fromkeys(
                    replace_words(text, one.words, new) for new in copies
                )
                if copy != text
            ]
            for text, one, copies in zip(texts, parsed, drawn, strict=True)
        ]

    def _parse(self, texts):
        """Returns words, pieces and replaceable places of each text."""
        rows = [split_words(text) for text in texts]
        pieces = self._tokenize([word.text for row in rows for word in row])
        return [
            self._readable(
                row,
                [pieces[word.text] for word in row],
                [
                    place
                    for place, word in enumerate(row)
                    if self._is_replaceable(word.text)
                    and self._unknown not in pieces[word.text]
                ],
            )
            for row in rows
        ]

    def _is_replaceable(self, word):
        """Whether a word has only letters and is not a stop word."""
        is_word = word.isalpha() and len(word) > 1
        return is_word and word.lower() not in self._stop_words

    def _readable(self, words, pieces, places):
        """Returns a text with those of the places that the model can read."""
        ends = np.cumsum([len(ids) for ids in pieces])
        most = self._masked_words.most_pieces
        places = [place for place in places if ends[place] <= most]
        return ParsedText(words, pieces, places)

    def _candidates(self, texts):
        """Returns the candidates for the places of each text."""
        found = [{} for _ in texts]
        single, multiple = [], []
        for candidates, text in zip(found, texts, strict=True):
            for place in text.places:
                is_single = len(text.pieces[place]) == 1
                places = single if is_single else multiple
                places.append((candidates, text, place))
        best = self._masked_words(
            [text.query(place) for _, text, place in single]
        )
        for (candidates, _, place), ids in zip(single, best, strict=True):
            candidates[place] = [self._vocabulary[one] for one in ids]
        near = self._neighbors(
            [text.word(place) for _, text, place in multiple]
        )
        for candidates, text, place in multiple:
            if text.word(place) in near:
                candidates[place] = near[text.word(place)]
        return found

    def _at_once(self, texts, generators):
        """Draws the replacements from candidates that the copies share."""
        candidates = self._candidates(texts)
        return [
            draw(found, self._num_copies, self._probability, generator)
            for found, generator in zip(candidates, generators, strict=True)
        ]

    def _in_turn(self, texts, generators):
        """Draws the replacements word by word, each from the copy so far."""
        copies = [
            [
                _Copy(text, generator, self._probability)
                for _ in range(self._num_copies)
            ]
            for text, generator in zip(texts, generators, strict=True)
        ]
        in_order = [copy for row in copies for copy in row]
        while due := [copy for copy in in_order if copy.places]:
            # Words of one piece draw first.
            due.sort(key=lambda copy: len(copy.pieces[copy.places[0]]) > 1)
            candidates = self._candidates(
                [
                    self._readable(copy.words, copy.pieces, copy.places[:1])
                    for copy in due
                ]
            )
            for copy, found in zip(due, candidates, strict=True):
                copy.places = copy.places[1:]
                for place, words in found.items():
                    word = words[copy.generator.integers(len(words))]
                    copy.new[place] = word
                    copy.pieces[place] = self._tokenize([word])[word]
        return [[copy.new for copy in row] for row in copies]


class _Copy:
    """A copy of a text, with the places that are left to replace."""

    def __init__(self, text, generator, probability):
        self.words = text.words
        self.pieces = list(text.pieces)
        self.generator = generator
        self.places = [
            place for place in text.places if generator.random() < probability
        ]
        self.new = {}


@dataclasses.dataclass(frozen=True)
class Word:
    """A word in a text."""

    text: str
    start: int
    end: int


@dataclasses.dataclass(frozen=True, eq=False)
class ParsedText:
    """The words of a text, their pieces, and the places to replace."""

    words: Sequence[Word]
    pieces: Sequence[np.ndarray]
    places: Sequence[int]

    def query(self, place: int) -> Query:
        """Returns the query for a place of one piece."""
        start = sum(len(ids) for ids in self.pieces[:place])
        return Query(np.concatenate(self.pieces), start)

    def word(self, place: int) -> str:
        """Returns a word in lower case, as vectors have it."""
        return self.words[place].text.lower()


def split_words(text: str) -> list[Word]:
    """Returns the words and punctuation marks of a text."""
    return [
        Word(match.group(), match.start(), match.end())
        for match in _WORD.finditer(text)
    ]


def replace_words(text: str, words: list[Word], new: dict[int, str]) -> str:
    """Returns the text with some words replaced."""
    parts, end = [], 0
    for number in sorted(new):
        word = words[number]
        parts += [text[end : word.start], new[number]]
        end = word.end
    return "".join([*parts, text[end:]])


def draw(
    candidates: dict[int, list[str]],
    num_copies: int,
    probability: float,
    generator: np.random.Generator,
) -> list[dict[int, str]]:
    """Draws the replacements for each copy of a text from shared candidates."""
    places = sorted(candidates)
    sizes = np.array([len(candidates[place]) for place in places])
    shape = (num_copies, len(places))
    is_replaced = generator.random(shape) < probability
    chosen = generator.integers(sizes, size=shape) if places else is_replaced
    return [
        {
            place: candidates[place][chosen[copy, column]]
            for column, place in enumerate(places)
            if is_replaced[copy, column]
        }
        for copy in range(num_copies)
    ]
