"""The settings of running text: files, held-out part, masking."""

import dataclasses
import itertools

from kdkit.data import DETOKENIZERS
from kdkit.data import Corpus
from kdkit.data import Masking
from kdkit.data import load_sentiment
from kdkit.errors import UsageError
from kdkit.training.ranges import check_text_numbers


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
        masking: `kdkit.data.Masking`, of encoders.
        one_document: bool. For decoders: whether the lines of a file follow
            each other as one document. Texts are then held out as files.
        detokenizer: string or `None`. What makes running text of a benchmark's
            words, a key of `kdkit.data.DETOKENIZERS`. `None` for text as it is.
    """

    files: tuple[str, ...] = ()
    column: str | None = None
    held_out: tuple[str, ...] = ()
    held_out_every: int = 100
    max_texts: int | None = None
    sequence_length: int = 128
    masking: Masking = Masking()
    one_document: bool = False
    detokenizer: str | None = None

    def __post_init__(self):
        check_text_numbers(self)
        if self.one_document and not self.held_out:
            raise UsageError(
                "Of files that are one document each, nothing can be held out "
                "but whole files. Received: held_out=(). Name some."
            )
        if self.detokenizer is not None and self.detokenizer not in (
            DETOKENIZERS
        ):
            raise UsageError(
                f"Unknown detokenizer. Expected one of {sorted(DETOKENIZERS)}. "
                f"Received: {self.detokenizer!r}."
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
            self._corpus(self.all_files).check()

    def texts(self, held_out: bool):
        """Yields the texts to measure on, or those to train on."""
        texts = self._texts(held_out)
        if self.detokenizer is None:
            return texts
        return map(DETOKENIZERS[self.detokenizer], texts)

    def num_words(self) -> int:
        """Counts the words to measure on, before any detokenizer.

        As `kdkit.data.Corpus.num_words` does.
        """
        if self.held_out:
            return self._corpus(self.held_out).num_words()
        return sum(1 + len(text.split()) for text in self._texts(True))

    def _texts(self, held_out):
        if self.files:
            texts = self._corpus(self.files).texts()
        else:
            texts = load_sentiment("train").texts[0]
        texts = itertools.islice(texts, self.max_texts)
        if self.held_out:
            if held_out:
                texts = self._corpus(self.held_out).texts()
            yield from texts
            return
        for number, text in enumerate(texts):
            if (number % self.held_out_every == 0) == held_out:
                yield text

    def _corpus(self, files):
        return Corpus(files, self.column, self.one_document)
