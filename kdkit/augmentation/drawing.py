"""What stands in the place of words, drawn as algorithm 1 has it.

Jiao et al., 2019, https://arxiv.org/abs/1909.10351. A word is replaced with
probability p_t, by each of its M candidates alike.
"""

from collections.abc import Callable
from collections.abc import Sequence

import numpy as np

from kdkit.augmentation.masked_words import MaskedWords
from kdkit.augmentation.masked_words import Query
from kdkit.augmentation.parsed import ParsedText

Neighbors = Callable[[Sequence[str]], dict[str, list[str]]]


def candidates_of(
    texts: Sequence[ParsedText],
    masked_words: MaskedWords,
    neighbors: Neighbors,
    vocabulary: Sequence[str],
) -> list[dict[int, list[str]]]:
    """Returns the candidates of every place, from the texts as they are.

    Args:
        texts: sequence of `ParsedText`s.
        masked_words: `MaskedWords`, for words of one piece.
        neighbors: callable from words to a dict from each of them that it
            knows to a list of words, for words of several pieces.
        vocabulary: sequence of the pieces by their ids.

    Returns:
        For each text a dict from place to a list of words. Places without
        candidates are not in it.
    """
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
    """Draws the replacements of each copy of a text, from shared candidates.

    Args:
        candidates: dict from place to a list of words.
        num_copies: int. N.
        probability: float. p_t.
        generator: `numpy.random.Generator`.

    Returns:
        A list of dicts from place to word.
    """
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
    """The question for a text's place of one piece."""
    start = sum(len(ids) for ids in text.pieces[:place])
    return Query(np.concatenate(text.pieces), start)


def _multiple(text, place):
    """A word of several pieces as lists of vectors have it."""
    return text.words[place].text.lower()
