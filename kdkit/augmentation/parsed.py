"""A text as augmentation sees it: words, pieces, places to replace."""

import dataclasses
from collections.abc import Collection
from collections.abc import Sequence

import numpy as np

from kdkit.augmentation.words import Word
from kdkit.augmentation.words import is_replaceable


@dataclasses.dataclass(frozen=True, eq=False)
class ParsedText:
    """Words of a text with their pieces.

    Args:
        words: list of `Word`s.
        pieces: list of int arrays, the ids of each word's pieces.
        single: tuple of ints. The places of words that are one piece and may
            be replaced.
        multiple: tuple of ints. Those of words of several pieces.
    """

    words: Sequence[Word]
    pieces: Sequence[np.ndarray]
    single: tuple[int, ...]
    multiple: tuple[int, ...]

    @property
    def places(self) -> list[int]:
        """All places that may be replaced, from left to right."""
        return sorted((*self.single, *self.multiple))


def parse(
    words: Sequence[Word],
    pieces: Sequence[np.ndarray],
    stop_words: Collection[str],
    most_pieces: int,
    unknown_id: int,
) -> ParsedText:
    """Finds the places of a text that may be replaced.

    Args:
        words: what `split_words` returned.
        pieces: sequence of int arrays, the ids of each word's pieces.
        stop_words: collection of lower-case strings, which stay.
        most_pieces: int. Words that end beyond so many pieces stay.
        unknown_id: int. Words that the vocabulary cannot spell stay.
    """
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
