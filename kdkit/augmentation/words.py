"""Words of a text, and which of them augmentation may replace."""

import dataclasses
import re
from collections.abc import Collection

from sklearn.feature_extraction import text as scikit_text

# A run of letters and digits, or any other visible character by itself, as
# BERT splits texts before it looks for word pieces.
_WORD = re.compile(r"[^\W_]+|[^\s]")


@dataclasses.dataclass(frozen=True)
class Word:
    """A word in a text.

    Args:
        text: string. As it stands there.
        start: int. Where it begins.
        end: int. Where it ends.
    """

    text: str
    start: int
    end: int


def split_words(text: str) -> list[Word]:
    """Returns the words and punctuation marks of a text.

    >>> [word.text for word in split_words("It's fine, really")]
    ['It', "'", 's', 'fine', ',', 'really']
    """
    return [
        Word(match.group(), match.start(), match.end())
        for match in _WORD.finditer(text)
    ]


def is_replaceable(
    word: str, stop_words: Collection[str] | None = None
) -> bool:
    """Whether a word may be replaced: letters alone, and no stop word.

    Args:
        word: string.
        stop_words: collection of lower-case strings. Defaults to
            scikit-learn's English ones.

    >>> [word for word in ("the", "film", "2", "s") if is_replaceable(word)]
    ['film']
    """
    if stop_words is None:
        stop_words = default_stop_words()
    return word.isalpha() and len(word) > 1 and word.lower() not in stop_words


def replace_words(text: str, words: list[Word], new: dict[int, str]) -> str:
    """Returns the text with some words replaced and all else as it was.

    Args:
        text: string.
        words: what `split_words` returned for it.
        new: dict from the number of a word to what stands in its place.

    >>> text = "a dull,  dull film"
    >>> replace_words(text, split_words(text), {1: "fine", 4: "play"})
    'a fine,  dull play'
    """
    parts, end = [], 0
    for number in sorted(new):
        word = words[number]
        parts += [text[end : word.start], new[number]]
        end = word.end
    return "".join([*parts, text[end:]])


def default_stop_words() -> frozenset[str]:
    """Returns scikit-learn's English stop words."""
    return scikit_text.ENGLISH_STOP_WORDS
