"""The settings of running text: files, held-out part, masking."""

import dataclasses
import itertools

from kdkit.data import Corpus
from kdkit.data import Masking
from kdkit.data import load_sentiment
from kdkit.errors import UsageError


@dataclasses.dataclass(frozen=True)
class CorpusSettings:
    """The text that a stage models.

    Args:
        files: tuple of strings. Files of one text a line, or tables. Empty for
            the generated sentences of the smoke runs.
        column: string or `None`. The column of tables that holds the texts.
        held_out: tuple of strings. Files to measure on, likewise. Empty to
            hold out texts of `files`.
        held_out_every: int. Then every so many texts, the first one included,
            is held out.
        max_texts: int or `None`. Only so many of the first texts of `files`.
            `None` for all of them.
        sequence_length: int. Tokens of the rows that texts are packed to.
        masking: `kdkit.data.Masking`.
    """

    files: tuple[str, ...] = ()
    column: str | None = None
    held_out: tuple[str, ...] = ()
    held_out_every: int = 100
    max_texts: int | None = None
    sequence_length: int = 128
    masking: Masking = Masking()

    def __post_init__(self):
        if self.held_out_every < 2:
            raise UsageError(
                "`held_out_every` must be at least 2, or nothing is left to "
                f"train on. Received: {self.held_out_every}."
            )
        if self.held_out and not self.files:
            raise UsageError(
                "`held_out` needs `files` to train on. Received: none."
            )

    @property
    def all_files(self) -> tuple[str, ...]:
        """The files to train and to measure on."""
        return (*self.files, *self.held_out)

    def check(self) -> None:
        """Checks that the files are there.

        Raises:
            UsageError: with everything that is missing.
        """
        if self.files:
            Corpus(self.all_files, self.column).check()

    def texts(self, held_out: bool):
        """Yields the texts to measure on, or those to train on."""
        if self.files:
            texts = Corpus(self.files, self.column).texts()
        else:
            texts = load_sentiment("train").texts[0]
        texts = itertools.islice(texts, self.max_texts)
        if self.held_out:
            if held_out:
                texts = Corpus(self.held_out, self.column).texts()
            yield from texts
            return
        for number, text in enumerate(texts):
            if (number % self.held_out_every == 0) == held_out:
                yield text
