"""TinyBERT's data augmentation: words replaced by words that fit or resemble.

Jiao et al., 2019, https://arxiv.org/abs/1909.10351, algorithm 1.
"""

import dataclasses
from collections.abc import Collection
from collections.abc import Sequence

import numpy as np

from kdkit.augmentation.drawing import candidates_of
from kdkit.augmentation.drawing import draw_at_once
from kdkit.augmentation.in_turn import InTurn
from kdkit.augmentation.masked_words import MaskedWords
from kdkit.augmentation.parsed import parse
from kdkit.augmentation.words import default_stop_words
from kdkit.augmentation.words import replace_words
from kdkit.augmentation.words import split_words
from kdkit.data.encoding import make_tokenize
from kdkit.errors import UsageError

UNKNOWN = "[UNK]"


# N by task in the code of TinyBERT's authors; the paper has 20 for all.
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
    """Returns how many copies TinyBERT has of a task's texts.

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
    """How texts are augmented.

    Args:
        num_copies: int. N, copies of each text. Defaults to `20`.
        probability: float. p_t, of each replaceable word to be replaced.
            Defaults to `0.4`.
        num_candidates: int. M, words that one is replaced by. Defaults to
            `15`.
        sequential: bool. Whether each prediction sees the replacements made so
            far, as algorithm 1 has it word for word; otherwise candidates come
            from the original text, once, as in the authors' code. Defaults to
            `False`.

    Raises:
        UsageError: (a `ValueError`) if one of them is impossible.
    """

    num_copies: int = 20
    probability: float = 0.4
    num_candidates: int = 15
    sequential: bool = False

    def __post_init__(self):
        problems = [
            f"{name} must be at least 1, received {getattr(self, name)}"
            for name in ("num_copies", "num_candidates")
            if not getattr(self, name) >= 1
        ]
        if not 0 <= self.probability <= 1:
            problems.append(
                f"probability must be in [0, 1], received {self.probability}"
            )
        if problems:
            raise UsageError(f"Augmentation: {'; '.join(problems)}.")


class Augmenter:
    """Makes copies of texts in which some words are replaced.

    A word that is one piece is replaced by one of the model's best words for
    its place, a word of several by one of the words nearest to it. Stop words,
    punctuation, numbers, and what stands beyond the model's positions are left
    alone. The copies of a text depend on the seed and the number of its row,
    not on what else is augmented with it.

    Args:
        augmentation: `Augmentation`.
        masked_words: `MaskedWords`.
        neighbors: callable from a list of words to a dict from each of them
            that it knows to a list of words.
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
        self._tokenize = make_tokenize(tokenizer)
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
        """Returns the copies of each text, without those that are the same.

        Args:
            texts: sequence of strings.
            first_row: int. The number of the first text's row. Defaults to
                `0`.
            column: int. Which text of its row it is. Defaults to `0`.

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
            candidates = candidates_of(
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
        """Words, pieces and replaceable places of each text."""
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
