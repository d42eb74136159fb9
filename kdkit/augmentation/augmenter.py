"""TinyBERT's data augmentation: replaces words by fitting or similar words.

Jiao et al., 2019, https://arxiv.org/abs/1909.10351, algorithm 1: each word is
replaced with probability p_t, by one of its M candidates with equal
probability.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Sequence

import numpy as np

from kdkit.augmentation.candidates import MaskedWords, Query
from kdkit.data import tokenize
from kdkit.errors import UsageError
from kdkit.late import LateModule

scikit_text = LateModule("sklearn.feature_extraction.text", "scikit-learn")

UNKNOWN = "[UNK]"


# N by task in the TinyBERT authors' code; the paper has 20 for all tasks.
CODE_COPIES = {
    "cola": 30,
    "mrpc": 30,
    "rte": 30,
    "stsb": 30,
    "sst2": 20,
    "qnli": 20,
    "mnli": 10,
    "qqp": 10,
}
USUAL_COPIES = 20


def copies_for(task: str, parity: str | None = None) -> int:
    """Returns the number of copies per text in TinyBERT.

    Args:
        task: string. A key of `kdkit.tasks.TASKS`.
        parity: string or `None`. `"tinybert"` for the numbers of the authors'
            code, which differ by task; `None` for the paper's.

    >>> copies_for("cola"), copies_for("cola", parity="tinybert")
    (20, 30)
    """
    if parity is None:
        return USUAL_COPIES
    return CODE_COPIES.get(task, USUAL_COPIES)


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """The settings of an augmentation.

    Args:
        num_copies: int. N, the number of copies per text. Defaults to `20`.
        probability: float. p_t, the probability that a replaceable word is
            replaced. Defaults to `0.4`.
        num_candidates: int. M, the number of candidates per word. Defaults to
            `15`.
        sequential: bool. Whether each prediction sees the replacements made so
            far, as in algorithm 1 read literally. Otherwise candidates are
            computed once, from the original text, as in the authors' code.
            Defaults to `False`.

    Raises:
        UsageError: (a `ValueError`) if an argument is out of range.
    """

    num_copies: int = 20
    probability: float = 0.4
    num_candidates: int = 15
    sequential: bool = False

    def __post_init__(self):
        least = min(self.num_copies, self.num_candidates)
        if least < 1 or not 0 <= self.probability <= 1:
            raise UsageError(
                "num_copies and num_candidates must be at least 1, probability "
                f"from 0 to 1. Received: {self}."
            )


class Augmenter:
    """Makes copies of texts with some words replaced.

    A word that is one piece is replaced by one of the model's most probable
    words at its position. A word of several pieces is replaced by one of the
    words nearest to it. Stop words, punctuation, numbers, and words beyond the
    model's positions do not change. The copies of a text depend on the seed and
    the number of its example, not on the other texts.

    Args:
        augmentation: `Augmentation`.
        masked_words: `MaskedWords`.
        neighbors: callable from a list of words to a dict from each known word
            to a list of words.
        tokenizer: the tokenizer of `masked_words`.
        stop_words: collection of lower-case strings. Defaults to
            scikit-learn's English ones.
        seed: int. Defaults to `0`.
    """

    def __init__(
        self,
        augmentation: Augmentation,
        masked_words: MaskedWords,
        neighbors,
        tokenizer,
        stop_words: Collection[str] | None = None,
        seed: int = 0,
    ):
        self.augmentation = augmentation
        self._masked_words = masked_words
        self._neighbors = neighbors
        self._tokenizer = tokenizer
        self._tokenize = functools.partial(tokenize, tokenizer=tokenizer)
        self._vocabulary = tokenizer.get_vocabulary()
        self._stop_words = (
            default_stop_words() if stop_words is None else stop_words
        )
        self._seed = seed
        self._in_turn = InTurn(
            masked_words, neighbors, self._vocabulary, self._tokenize
        )

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
        parsed = self._parse(texts)
        settings = self.augmentation
        generators = [
            np.random.default_rng([self._seed, first_row + number, column])
            for number in range(len(texts))
        ]
        if settings.sequential:
            drawn = self._in_turn(
                parsed, settings.num_copies, settings.probability, generators
            )
        else:
            candidates = find_candidates(
                parsed, self._masked_words, self._neighbors, self._vocabulary
            )
            drawn = [
                draw_at_once(
                    one, settings.num_copies, settings.probability, generator
                )
                for one, generator in zip(candidates, generators, strict=True)
            ]
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
        words = [split_words(text) for text in texts]
        pieces = self._tokenize([word.text for row in words for word in row])
        return [
            parse(
                row,
                [pieces[word.text] for word in row],
                self._stop_words,
                self._masked_words.most_pieces,
                self._tokenizer.token_to_id(UNKNOWN),
            )
            for row in words
        ]


class InTurn:
    """Draws the replacements for copies of texts, word after word."""

    def __init__(self, masked_words, neighbors, vocabulary, tokenize):
        self._masked_words = masked_words
        self._neighbors = neighbors
        self._vocabulary = vocabulary
        self._tokenize = tokenize

    def __call__(self, texts, num_copies, probability, generators):
        """Returns for each text a list of dicts from place to word."""
        copies = [
            [
                _Copy(text, probability, generator, self._masked_words)
                for _ in range(num_copies)
            ]
            for text, generator in zip(texts, generators, strict=True)
        ]
        in_order = [copy for row in copies for copy in row]
        while waiting := [copy for copy in in_order if copy.next_place()]:
            self._step(waiting)
        return [[copy.new for copy in row] for row in copies]

    def _step(self, copies):
        """Replaces the next place of each copy."""
        single = [copy for copy in copies if copy.is_single]
        best = self._masked_words([copy.query() for copy in single])
        for copy, ids in zip(single, best, strict=True):
            copy.choose([self._vocabulary[one] for one in ids])
        multiple = [copy for copy in copies if not copy.is_single]
        near = self._neighbors([copy.word for copy in multiple])
        for copy in multiple:
            copy.choose(near.get(copy.word))
        pieces = self._tokenize([copy.chosen for copy in copies if copy.chosen])
        for copy in copies:
            copy.replace(pieces)


class _Copy:
    """A copy of a text, which is processed from left to right."""

    def __init__(self, text, probability, generator, masked_words):
        self.new = {}
        self.chosen = None
        self._text = text
        self._pieces = list(text.pieces)
        self._generator = generator
        self._most_pieces = masked_words.most_pieces
        self._places = [
            place for place in text.places if generator.random() < probability
        ]

    @property
    def place(self):
        return self._places[0]

    @property
    def is_single(self):
        return self.place in self._text.single

    @property
    def word(self):
        return self._text.words[self.place].text.lower()

    def next_place(self) -> bool:
        """Whether there is another place that the model can read."""
        if not self._places:
            return False
        end = sum(len(ids) for ids in self._pieces[: self.place + 1])
        if end > self._most_pieces:
            self._places = []  # longer words before it moved it out of range
        return bool(self._places)

    def query(self):
        start = sum(len(ids) for ids in self._pieces[: self.place])
        return Query(np.concatenate(self._pieces), start)

    def choose(self, words):
        """Draws one of the candidates, if there are any."""
        self.chosen = None
        if words:
            self.chosen = words[self._generator.integers(len(words))]

    def replace(self, pieces):
        """Replaces the word by the chosen one, and moves to the next place."""
        if self.chosen is not None:
            self.new[self.place] = self.chosen
            self._pieces[self.place] = pieces[self.chosen]
        self._places = self._places[1:]


# A run of letters and digits, or any other visible character alone, as BERT
# splits texts before it looks for word pieces.
_WORD = re.compile(r"[^\W_]+|[^\s]")


@dataclasses.dataclass(frozen=True)
class Word:
    """A word in a text."""

    text: str
    start: int
    end: int


def split_words(text: str) -> list[Word]:
    """Returns the words and punctuation marks of a text."""
    return [
        Word(match.group(), match.start(), match.end())
        for match in _WORD.finditer(text)
    ]


def is_replaceable(
    word: str, stop_words: Collection[str] | None = None
) -> bool:
    """Whether a word may be replaced: only letters, and not a stop word."""
    if stop_words is None:
        stop_words = default_stop_words()
    return word.isalpha() and len(word) > 1 and word.lower() not in stop_words


def replace_words(text: str, words: list[Word], new: dict[int, str]) -> str:
    """Returns the text with some words replaced."""
    parts, end = [], 0
    for number in sorted(new):
        word = words[number]
        parts += [text[end : word.start], new[number]]
        end = word.end
    return "".join([*parts, text[end:]])


def default_stop_words() -> frozenset[str]:
    """Returns scikit-learn's English stop words."""
    return scikit_text.ENGLISH_STOP_WORDS


@dataclasses.dataclass(frozen=True, eq=False)
class ParsedText:
    """The words of a text with their pieces."""

    words: Sequence[Word]
    pieces: Sequence[np.ndarray]
    single: tuple[int, ...]
    multiple: tuple[int, ...]

    @property
    def places(self) -> list[int]:
        """All replaceable places, from left to right."""
        return sorted((*self.single, *self.multiple))


def parse(
    words: Sequence[Word],
    pieces: Sequence[np.ndarray],
    stop_words: Collection[str],
    most_pieces: int,
    unknown_id: int,
) -> ParsedText:
    """Finds the replaceable places in a text."""
    ends = np.cumsum([len(ids) for ids in pieces])
    places = [
        place
        for place, (word, ids) in enumerate(zip(words, pieces, strict=True))
        if is_replaceable(word.text, stop_words)
        and ends[place] <= most_pieces
        and unknown_id not in ids
    ]
    return ParsedText(
        words,
        pieces,
        tuple(place for place in places if len(pieces[place]) == 1),
        tuple(place for place in places if len(pieces[place]) > 1),
    )


Neighbors = Callable[[Sequence[str]], dict[str, list[str]]]


def find_candidates(
    texts: Sequence[ParsedText],
    masked_words: MaskedWords,
    neighbors: Neighbors,
    vocabulary: Sequence[str],
) -> list[dict[int, list[str]]]:
    """Returns the candidates for every place, from the original texts."""
    single = [
        (number, place)
        for number, text in enumerate(texts)
        for place in text.single
    ]
    best = masked_words(
        [_query(texts[number], place) for number, place in single]
    )
    found = [{} for _ in texts]
    for (number, place), ids in zip(single, best, strict=True):
        found[number][place] = [vocabulary[one] for one in ids]
    near = neighbors(
        [_multiple(text, place) for text in texts for place in text.multiple]
    )
    for candidates, text in zip(found, texts, strict=True):
        for place in text.multiple:
            if _multiple(text, place) in near:
                candidates[place] = near[_multiple(text, place)]
    return found


def draw_at_once(
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


def _query(text, place):
    """Returns the query for a place of one piece."""
    start = sum(len(ids) for ids in text.pieces[:place])
    return Query(np.concatenate(text.pieces), start)


def _multiple(text, place):
    """Returns a word of several pieces in lower case, as vectors have it."""
    return text.words[place].text.lower()
