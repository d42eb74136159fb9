"""What runs learn from: tasks, text, pairs, texts, translations, candidates.

The methods read the files, or what kdkit generates for smoke runs.
"""

import itertools
import pathlib
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from kdkit import data
from kdkit.config.fields import (
    InputFile,
    InputFiles,
    ModelPath,
    NewFile,
    Strict,
    Strings,
    tasks,
)
from kdkit.data import retrieval
from kdkit.data.texts import (
    DETOKENIZERS,
    corpus_lines,
    corpus_texts,
    parallel_pairs,
    parallel_rows,
    require_parallel,
)
from kdkit.errors import unknown
from kdkit.io.reading import has_text
from kdkit.settings import Count, Every, Length, Positive, Seed, Share


def _dev(split):
    if split.startswith(("test", "train")):
        raise ValueError("models are chosen on a dev split")
    return split


DevSplit = Annotated[str, AfterValidator(_dev)]


class Batches(Strict):
    """Rows of different lengths."""

    sequence_length: Length = 128
    """The largest length in tokens; longer texts are truncated."""
    num_buckets: Count | None = 8
    """How many lengths batches are padded to; null for one."""


class TaskData(Batches):
    """The labelled examples of a task."""

    task: str
    """A task of kdkit list, or a TOML file that describes your own."""
    data_dir: InputFile | None = None
    """The folder with SST-2/, MRPC/. Defaults to TensorFlow Datasets."""
    table: data.LabeledTable | None = None
    """Your own table, in place of a task with a name."""
    dev_split: DevSplit = "dev"
    """The split that chooses the best epoch."""
    max_train_rows: Count | None = None
    """Train on so many examples, drawn with the seed."""

    @model_validator(mode="after")
    def _known_task(self):
        known = tasks.TASKS
        if self.table is None and self.task not in known:
            raise unknown("task", self.task, known)
        return self


class Unlabeled(Strict):
    """Text that the teacher labels."""

    files: Annotated[InputFiles, Field(min_length=1)]
    """Files with one text a line, or tables."""
    columns: Strings = ()
    """The columns with the text, two for pairs."""
    per_labeled: Positive = 1.0
    """Unlabelled examples for each labelled one in an epoch."""


class Augmentation(Strict):
    """Copies of a task's texts with words replaced, TinyBERT's algorithm 1."""

    kind: Literal["augmentation"] = "augmentation"
    data: TaskData
    model: ModelPath
    """The masked language model that proposes words."""
    word_vectors: InputFile | None = None
    """Vectors of words, such as GloVe's; null for the model's own."""
    stop_words: InputFile | None = None
    """Words that are never replaced, one a line; null for scikit-learn's."""
    num_copies: Count = 20
    """N: copies of each text; with parity the authors' number for the task."""
    probability: Share = 0.4
    """p_t: the probability that a word is replaced."""
    num_candidates: Count = 15
    """M: candidates for each word."""
    sequential: bool = False
    """Predict from the copy so far: algorithm 1 read literally."""
    parity: Literal["tinybert"] | None = None
    """Follow the authors' code where it differs from the paper."""
    seed: Seed = 0
    """The seed of the drawn words."""


class Augmented(Strict):
    """Augmented examples, with the labels of their sources."""

    file: NewFile
    """A file of kdkit augment; the step augmented makes a missing one."""
    copies_per_epoch: Count | None = None
    """So many copies of each example in an epoch; null for all."""


class Lines(Strict):
    """Files of text, some of it held out to measure on."""

    files: InputFiles
    """Files with one text a line, or tables; empty for generated text."""
    held_out: InputFiles = ()
    """Files to measure on. Without them, some of the texts are held out."""
    held_out_every: Every = 100
    """Without held_out, one in so many texts is held out, the first one too."""
    max_texts: Count | None = None
    """Use only so many first texts."""
    sequence_length: Length = 128
    """The largest length in tokens."""

    @model_validator(mode="after")
    def _held_out_of_files(self):
        if self.held_out and not self.files:
            raise ValueError("held_out needs files to train on")
        return self

    def part(self, entries: Iterable, held_out: bool) -> Iterator:
        """Yields the entries of `files` to measure on, or to train on."""
        for number, entry in enumerate(
            itertools.islice(entries, self.max_texts)
        ):
            is_held_out = number % self.held_out_every == 0
            if self.held_out or is_held_out == held_out:
                yield entry


class Corpus(Lines):
    """Running text."""

    kind: Literal["corpus"] = "corpus"
    column: str | None = None
    """The column with the texts, for tables."""
    masking: data.Masking = data.Masking()
    """How tokens are masked, for encoders."""
    one_document: bool = False
    """For decoders: each file is one document."""
    detokenizer: Literal["ptb", "wikitext"] | None = None
    """Turn a benchmark's tokens back into running text first."""

    @model_validator(mode="after")
    def _whole_files(self):
        if self.one_document and not self.held_out:
            raise ValueError("with one_document, hold out whole files")
        return self

    def texts(self, held_out: bool) -> Iterator[str]:
        """Yields the texts to measure on, or the texts to train on."""
        texts = self._texts(held_out)
        if self.detokenizer is None:
            return texts
        return map(DETOKENIZERS[self.detokenizer], texts)

    def num_words(self) -> int:
        """Counts the words to measure on, before any detokenizer.

        The end of every text counts as a word, and with `one_document` that of
        every line: 82,430 words in the test split of Penn Treebank, 245,569 in
        that of WikiText-2.
        """
        # The empty string after the last line of a document is not a line.
        return sum(1 + len(text.split()) for text in self._texts(True) if text)

    def _texts(self, held_out):
        if held_out and self.held_out:
            return self._read(self.held_out)
        texts = data.load_sentiment("train").texts[0]
        if self.files:
            texts = self._read(self.files)
        return self.part(texts, held_out)

    def _read(self, files):
        return corpus_texts(files, self.column, self.one_document)


class Sentences(Lines):
    """Sentences whose spans are hidden, for encoder-decoders."""

    kind: Literal["sentences"] = "sentences"
    languages: Strings = ()
    """The language of each file; none for text without language tokens."""
    column: str | None = None
    """The column with the sentences, for tables."""
    spans: data.SpanMasking = data.SpanMasking()
    """How spans are hidden."""

    @model_validator(mode="after")
    def _one_language_a_file(self):
        for files in filter(None, (self.files, self.held_out)):
            if self.languages and len(files) != len(self.languages):
                raise ValueError("languages: one for each file, in its order")
        return self

    def texts(self, held_out: bool) -> Iterator[str]:
        """Yields the sentences to measure on, or the sentences to train on."""
        for _, texts in self.parts(held_out):
            yield from texts

    def parts(self, held_out: bool) -> Iterator[tuple[str | None, Iterable]]:
        """Yields the language and the sentences of each file."""
        of_files = held_out and self.held_out
        sources = zip(*data.generated_pairs(), strict=True)
        if self.files:
            sources = [
                corpus_texts([file], self.column)
                for file in (of_files or self.files)
            ]
        for number, texts in enumerate(sources):
            language = self.languages[number] if self.languages else None
            yield language, texts if of_files else self.part(texts, held_out)


class Pairs(Lines):
    """Sources and targets, such as translations, for encoder-decoders."""

    kind: Literal["pairs"] = "pairs"
    columns: Strings = ()
    """The columns with source and target, for tables."""
    languages: Strings = ()
    """The languages of source and target."""

    @property
    def sides(self) -> tuple[str | None, str | None]:
        """The languages of source and target."""
        return self.languages or (None, None)

    def texts(self, held_out: bool) -> Iterator[str]:
        """Yields the source and the target of each pair."""
        return itertools.chain.from_iterable(self.pairs(held_out))

    def pairs(self, held_out: bool) -> Iterator[tuple[str, str]]:
        """Yields the pairs to measure on, or the pairs to train on."""
        if held_out and self.held_out:
            return parallel_pairs(self.held_out, self.columns)
        pairs = data.generated_pairs()
        if self.files:
            if self.max_texts is not None:  # the files' ends are not read
                require_parallel(self.files, self.columns)
            pairs = parallel_pairs(self.files, self.columns)
        return self.part(pairs, held_out)


Text = Annotated[Corpus | Sentences | Pairs, Field(discriminator="kind")]


class EmbedderData(Batches):
    """Data for sentence encoders, and pairs with scores to measure on."""

    files: InputFiles
    """The files to train on; empty for generated data."""
    held_out_every: Every = 100
    """Without other data to measure on, one in so many texts is held out."""
    scored: TaskData | None = None
    """Pairs of texts with scores, whose dev split is measured."""


class Texts(EmbedderData):
    """Texts without labels."""

    kind: Literal["texts"] = "texts"
    column: str | None = None
    """The column with the texts, for tables."""
    max_texts: Count | None = None
    """Use only so many first lines."""

    @property
    def holds_out(self) -> int:
        """One in so many texts is held out; 0 for none."""
        return 0 if self.scored else self.held_out_every

    def lines(self) -> Iterator[str]:
        """Yields the lines, also empty ones."""
        lines = data.load_sentiment("train").texts[0]
        if self.files:
            lines = corpus_lines(self.files, self.column)
        return itertools.islice(lines, self.max_texts)

    def texts(self, held_out: bool) -> Iterator[str]:
        """Yields the lines with text."""
        return filter(has_text, self.lines())


class Translations(EmbedderData):
    """Texts with translations: a file a language, the teacher's first."""

    kind: Literal["translations"] = "translations"
    held_out: InputFiles = ()
    """Files of these languages to measure on, in place of lines held out."""
    max_texts: Count | None = None
    """Use only so many first lines."""
    tokenizer: ModelPath | Count | None = None
    """The student's tokenizer, or the size of one to train on the texts."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Names of the languages: the ends of the files' names, or numbers."""
        if not self.files:
            return data.GENERATED_LANGUAGES
        names = [pathlib.Path(file).suffix[1:] for file in self.files]
        if len({*names}) == len(names) and all(map(str.isalnum, names)):
            return tuple(names)
        return tuple(str(number + 1) for number in range(len(names)))

    @property
    def holds_out(self) -> int:
        """One in so many sources is held out; 0 for none."""
        return 0 if self.held_out else self.held_out_every

    def lines(self, held_out: bool = False) -> Iterator[tuple[str, ...]]:
        """Yields the texts of each line, also empty ones."""
        files, most = self.files, self.max_texts
        if held_out:
            files, most = self.held_out, None
        lines = data.generated_pairs()
        if files:
            if most is not None:
                require_parallel(files)  # their ends are not read
            lines = (texts for _, texts in parallel_rows(files))
        return itertools.islice(lines, most)

    def texts(self, held_out: bool) -> Iterator[str]:
        """Yields the texts of all languages, line by line."""
        lines = self.lines(held_out)
        return filter(has_text, itertools.chain.from_iterable(lines))


class Candidates(EmbedderData):
    """Queries with documents, which a cross-encoder scores."""

    kind: Literal["candidates"] = "candidates"
    held_out: InputFiles = ()
    """Queries to measure on, in place of queries held out."""
    held_out_every: Every = 20
    """Without held_out, one in so many queries is held out."""
    num_candidates: Every | None = None
    """Candidates of each query: the positive, the first negatives."""
    scale: Positive | None = None
    """Factor of the student's products; null: 20 for vectors of length 1."""
    pair_length: Annotated[int, Field(ge=4)] = 256
    """The largest length of a query with a candidate, for the teacher."""

    def read(self, held_out: bool = False):
        """Returns the queries of `files`, or those of `held_out`."""
        files = self.held_out if held_out else self.files
        if files:
            return retrieval.read_candidates(files, self.num_candidates)
        rows = data.load_candidates()
        documents = [one[: self.num_candidates] for one in rows.documents]
        return retrieval.Candidates(rows.queries, documents)

    def texts(self, held_out: bool) -> Iterator[str]:
        """Yields the texts of `files`."""
        return itertools.chain.from_iterable(self.read().rows())


class Cache(Strict):
    """The cache of the teachers' outputs."""

    directory: str = "teacher_cache"
    """The folder, which many runs may share. Defaults to one in the run."""
    precision: Literal["fp32", "bf16", "int8"] = "fp32"
    """The precision of cached outputs: fp32, bf16 or int8."""
