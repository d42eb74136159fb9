"""The settings of the data for encoder-decoders: sentences and pairs."""

import itertools
from collections.abc import Iterable, Iterator

from pydantic.dataclasses import dataclass

from kdkit.data import (
    Corpus,
    ParallelText,
    SpanMasking,
    generated_pairs,
)
from kdkit.settings import STRICT, Count, Every, Length
from kdkit.training.model_settings import require_files


@dataclass(frozen=True, config=STRICT)
class SentenceSettings:
    """Sentences in one or several languages, whose spans are hidden.

    Args:
        files: tuple of strings. Files with one sentence per line, or tables.
            Empty for the generated sentences of smoke runs, in
            `kdkit.data.GENERATED_LANGUAGES`.
        languages: tuple of strings. The language of each file; empty for text
            without language tokens.
        held_out: tuple of strings. Files to measure on, one for each of `files`
            in the same language. Empty to hold out sentences from `files`.
        held_out_every: int. Without `held_out`, one in so many sentences of
            each file is held out, beginning with the first.
        max_texts: int or `None`. Use only so many first sentences of each
            file. `None` for all sentences.
        sequence_length: int. The largest number of tokens in a sentence.
            Longer sentences are truncated.
        spans: `kdkit.data.SpanMasking`.
        column: string or `None`. The column with the sentences, for tables.

    """

    files: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    held_out: tuple[str, ...] = ()
    held_out_every: Every = 100
    max_texts: Count | None = None
    sequence_length: Length = 128
    spans: SpanMasking = SpanMasking()
    column: str | None = None

    def __post_init__(self):
        require_files(self)

    @property
    def all_files(self) -> tuple[str, ...]:
        """The files to train and to measure on."""
        return (*self.files, *self.held_out)

    @property
    def different_languages(self) -> tuple[str, ...]:
        """The languages in their order, each once."""
        return tuple(dict.fromkeys(self.languages))

    def texts(self, held_out: bool) -> Iterator[str]:
        """Yields the sentences to measure on, or the sentences to train on."""
        for _, texts in self.parts(held_out):
            yield from texts

    def parts(
        self, held_out: bool
    ) -> Iterator[tuple[str | None, Iterable[str]]]:
        """Yields the language and the sentences of each file."""
        from_files = held_out and self.held_out
        if self.files:
            files = self.held_out if from_files else self.files
            sources = [Corpus((file,), self.column).texts() for file in files]
        else:
            sources = list(zip(*generated_pairs(), strict=True))
        languages = self.languages or (None,) * len(sources)
        for texts, language in zip(sources, languages, strict=True):
            if from_files:
                yield language, texts
                continue
            texts = itertools.islice(texts, self.max_texts)
            if not self.held_out:
                texts = _part(texts, self.held_out_every, held_out)
            yield language, texts


@dataclass(frozen=True, config=STRICT)
class PairSettings:
    """Pairs of source and target, such as translations.

    Args:
        files: tuple of strings, as `kdkit.data.ParallelText` takes them. Empty
            for the generated pairs of smoke runs, in
            `kdkit.data.GENERATED_LANGUAGES`.
        columns: tuple of strings. The headings of the columns with source and
            target, for tables; empty for two files of lines.
        languages: tuple of strings. The languages of source and target; empty
            for text without language tokens.
        held_out: tuple of strings. Files of the same form to measure on. Empty
            to hold out pairs from `files`.
        held_out_every: int. Without `held_out`, one in so many pairs is held
            out, beginning with the first.
        max_texts: int or `None`. Use only so many first pairs of `files`.
            `None` for all pairs.
        sequence_length: int. The largest number of tokens in a text. Longer
            texts are truncated.

    Raises:
        pydantic.ValidationError: (a `ValueError`) for wrong fields.
    """

    files: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    held_out: tuple[str, ...] = ()
    held_out_every: Every = 100
    max_texts: Count | None = None
    sequence_length: Length = 128

    def __post_init__(self):
        require_files(self)

    @property
    def all_files(self) -> tuple[str, ...]:
        """The files to train and to measure on."""
        return (*self.files, *self.held_out)

    @property
    def different_languages(self) -> tuple[str, ...]:
        """The languages in their order, each once."""
        return tuple(dict.fromkeys(self.languages))

    @property
    def sides(self) -> tuple[str | None, str | None]:
        """The languages of source and target."""
        return self.languages or (None, None)

    def texts(self, held_out: bool) -> Iterator[str]:
        """Yields the source and the target of each pair in `pairs`."""
        return itertools.chain.from_iterable(self.pairs(held_out))

    def side_texts(self, side: int, held_out: bool) -> Iterator[str]:
        """Yields the sources (side 0) or the targets (side 1) of `pairs`."""
        return (pair[side] for pair in self.pairs(held_out))

    def pairs(self, held_out: bool) -> Iterable[tuple[str, str]]:
        """Yields the pairs to measure on, or the pairs to train on."""
        if held_out and self.held_out:
            return self._parallel(self.held_out).pairs()
        if self.files and self.max_texts is not None:
            self._parallel(self.files).check()  # their ends are not read
        pairs = (
            self._parallel(self.files).pairs()
            if self.files
            else generated_pairs()
        )
        pairs = itertools.islice(pairs, self.max_texts)
        if self.held_out:
            return pairs
        return _part(pairs, self.held_out_every, held_out)

    def _parallel(self, files):
        return ParallelText(files, self.columns or None)


def _part(entries, every, held_out):
    """The held-out entries, one in so many, or the other entries."""
    return (
        entry
        for number, entry in enumerate(entries)
        if (number % every == 0) == held_out
    )
