"""The settings of texts with translations, for sentence encoders."""

import itertools
import pathlib
from collections.abc import Iterator
from typing import ClassVar

from pydantic.dataclasses import dataclass

from kdkit.data import GENERATED_LANGUAGES, ParallelText, generated_pairs
from kdkit.errors import UsageError
from kdkit.io.reading import has_text
from kdkit.settings import STRICT, Count
from kdkit.training.embedding_settings import EmbeddingData
from kdkit.training.model_settings import require_files

VOCABULARY_SIZE = 16_000
VOCABULARY_TEXTS = 2_000_000  # to train a vocabulary on


@dataclass(frozen=True, config=STRICT)
class TranslationsSettings(EmbeddingData):
    """The settings of texts with translations, for sentence encoders.

    Args:
        files: tuple of strings. Files with one text per line, one file for each
            language, the teacher's language first. Their lines belong
            together. Lines without a text in the first file, empty translations
            and repeated pairs are left out.
        held_out_every: int. Without `held_out`, one in so many different texts
            of the first file is held out, with its translations.
        task, data_dir, table, dev_split, sequence_length, num_buckets: as in
            `EmbeddingData`. The scored pairs are in the teacher's language.
        held_out: tuple of strings. Files of the same languages to measure on.
            Empty to hold out lines from `files`.
        tokenizer: string or `None`. The place of the student's tokenizer, as
            `kdkit.models.load_tokenizer` takes it.
        vocabulary_size: int or `None`. Train a vocabulary of so many word
            pieces on the texts to train on, at most on the first 2 million.
            `None` if `tokenizer` is given or the student has a vocabulary.
        max_texts: int or `None`. Use only so many first lines. `None` for all.

    Raises:
        pydantic.ValidationError: (a `ValueError`) for wrong fields.
    """

    held_out: tuple[str, ...] = ()
    tokenizer: str | None = None
    vocabulary_size: Count | None = None
    max_texts: Count | None = None

    stage_data: ClassVar[str] = "translations"

    def __post_init__(self):
        require_files(self)
        if None not in (self.tokenizer, self.vocabulary_size):
            raise UsageError(
                "A tokenizer has a vocabulary. Received: both tokenizer="
                f"{self.tokenizer!r} and vocabulary_size="
                f"{self.vocabulary_size}."
            )

    @property
    def languages(self) -> tuple[str, ...]:
        """Names of the languages: the ends of the files' names, or numbers."""
        if not self.files:
            return GENERATED_LANGUAGES
        names = [pathlib.Path(file).suffix[1:] for file in self.files]
        if len({*names}) == len(names) and all(map(str.isalnum, names)):
            return tuple(names)
        return tuple(str(number + 1) for number in range(len(names)))

    @property
    def all_files(self) -> tuple[str, ...]:
        """The files to train and to measure on."""
        return (*self.files, *self.held_out)

    @property
    def holds_out(self) -> int:
        """One in so many sources is held out; 0 for none."""
        return 0 if self.held_out else self.held_out_every

    def lines(self, held_out: bool = False) -> Iterator[tuple[str, ...]]:
        """Yields the texts of each line, also empty ones.

        Args:
            held_out: bool. Whether to read the files in `held_out`. Defaults to
                `False`.
        """
        if held_out:
            return ParallelText(self.held_out).lines()
        lines = generated_pairs()
        if self.files:
            lines = ParallelText(self.files).lines()
            if self.max_texts is not None:  # the ends of the files are not read
                ParallelText(self.files).check()
        return itertools.islice(lines, self.max_texts)

    def texts(self, held_out: bool) -> Iterator[str]:
        """Yields the texts of all languages, line by line, for checks.

        Args:
            held_out: bool. Whether to read the files in `held_out`.
        """
        lines = self.lines(held_out)
        return filter(has_text, itertools.chain.from_iterable(lines))
