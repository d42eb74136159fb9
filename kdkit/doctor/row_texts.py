"""What rows are told apart by: texts, and labels."""

import numpy as np

from kdkit.data import Examples
from kdkit.data import Questions
from kdkit.data import TokenExamples
from kdkit.data import normalized

PUNCTUATION = ".,;:!?\"'`()[]{}«»“”„‘’–—…。，、；：！？（）「」《》"


def given_texts(examples) -> list[tuple[str, ...]]:
    """Returns the texts of every row as they are, or its words.

    Args:
        examples: `kdkit.data.Examples`, `Questions` or `TokenExamples`.
    """
    if isinstance(examples, Examples):
        return list(zip(*examples.texts, strict=True))
    if isinstance(examples, Questions):
        columns = (examples.passages, examples.questions, examples.options)
        return [
            (passage, question, *options)
            for passage, question, options in zip(*columns, strict=True)
        ]
    return examples.words


def row_texts(examples) -> list[tuple[str, ...]]:
    """Returns the texts of every row, in lower case, with single blanks.

    A word of `TokenExamples` has no blank: U+00A0 replaces those within, so
    that `whole_texts` can separate words from texts.

    Args:
        examples: as for `given_texts`.
    """
    rows = [normalized(row) for row in given_texts(examples)]
    if isinstance(examples, TokenExamples):
        return [
            tuple(word.replace(" ", "\u00a0") for word in row) for row in rows
        ]
    return rows


def row_labels(examples) -> list[tuple | None]:
    """Returns the label of every row, `None` for each where there are none.

    Of words with a label each, those of punctuation alone are left out.

    Args:
        examples: as for `given_texts`.
    """
    labels = examples.labels
    if labels is None:
        return [None] * len(examples)
    if isinstance(examples, TokenExamples):
        labels = [
            [
                label
                for word, label in zip(words, some, strict=True)
                if word.strip(PUNCTUATION)
            ]
            for words, some in zip(examples.words, labels, strict=True)
        ]
    return [tuple(np.ravel(label).tolist()) for label in labels]


def as_they_are(row: tuple) -> tuple[str, ...]:
    """Returns a row's texts, words as one text, a pair's in any order.

    Args:
        row: tuple of strings, as `row_texts` returns it.
    """
    return _in_any_order(whole_texts(row))


def without_punctuation(row: tuple) -> tuple[str, ...]:
    """Returns `as_they_are` without the punctuation around words.

    Args:
        row: tuple of strings, as `row_texts` returns it.
    """
    texts = []
    for text in whole_texts(row):
        words = (word.strip(PUNCTUATION) for word in text.split())
        texts.append(" ".join(filter(None, words)) or text)
    return _in_any_order(texts)


def whole_texts(row: tuple) -> tuple[str, ...]:
    """Returns a row's texts, the words of a text as one.

    Args:
        row: tuple of strings, as `row_texts` returns it.
    """
    if any(" " in text for text in row):
        return row
    return (" ".join(row),)


def _in_any_order(texts):
    return tuple(sorted(texts) if len(texts) == 2 else texts)
