"""Replacements drawn from left to right, each seeing those before it.

Algorithm 1 of Jiao et al., 2019, https://arxiv.org/abs/1909.10351, word for
word.
"""

import numpy as np

from kdkit.augmentation.masked_words import Query


class InTurn:
    """Draws the replacements of copies of texts.

    All copies of all texts take their next step together, so that the model is
    run on large batches. The coin for a place is tossed before its candidates
    are asked for, which is the same: it does not depend on them.

    Args:
        masked_words: `MaskedWords`, for words of one piece.
        neighbors: callable from words to a dict from each of them that it
            knows to a list of words, for words of several pieces.
        vocabulary: sequence of the pieces by their ids.
        tokenize: callable from words to a dict from each of them to the ids of
            its pieces.
    """

    def __init__(self, masked_words, neighbors, vocabulary, tokenize):
        self._masked_words = masked_words
        self._neighbors = neighbors
        self._vocabulary = vocabulary
        self._tokenize = tokenize

    def __call__(self, texts, num_copies, probability, generators):
        """Returns for each text a list of dicts from place to word.

        Args:
            texts: sequence of `ParsedText`s.
            num_copies: int. N.
            probability: float. p_t.
            generators: sequence of `numpy.random.Generator`s, one per text.
        """
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
    """A copy of a text on its way from left to right."""

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
        """Whether a place is left that the model can see to its end."""
        if not self._places:
            return False
        end = sum(len(ids) for ids in self._pieces[: self.place + 1])
        if end > self._most_pieces:
            self._places = []  # moved out of sight by longer words before it
        return bool(self._places)

    def query(self):
        start = sum(len(ids) for ids in self._pieces[: self.place])
        return Query(np.concatenate(self._pieces), start)

    def choose(self, words):
        """Draws one of the candidates, of which there may be none."""
        self.chosen = None
        if words:
            self.chosen = words[self._generator.integers(len(words))]

    def replace(self, pieces):
        """Puts what was chosen in its place, and goes on to the next."""
        if self.chosen is not None:
            self.new[self.place] = self.chosen
            self._pieces[self.place] = pieces[self.chosen]
        self._places = self._places[1:]
