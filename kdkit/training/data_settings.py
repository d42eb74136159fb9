"""The settings of data: tasks, running text, augmentation, caches."""

import dataclasses
import itertools
from typing import Annotated, Literal

from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from kdkit.augmentation import Augmentation
from kdkit.data import (
    DETOKENIZERS,
    Corpus,
    LabeledTable,
    Masking,
    load_sentiment,
)
from kdkit.errors import UsageError
from kdkit.settings import STRICT, Count, Every, Length, Positive, Seed
from kdkit.tasks import Task
from kdkit.training.model_settings import require_files


def require_dev(split: str) -> str:
    """Rejects a split on which no model is chosen."""
    if split.startswith(("test", "train")):
        raise UsageError("Models are chosen on a dev split")
    return split


DevSplit = Annotated[str, AfterValidator(require_dev)]


@dataclass(frozen=True, config=STRICT)
class DataSettings:
    """The settings of a task's data.

    Args:
        task: string. A key of `kdkit.tasks.TASKS`; with `table`, only a name.
        data_dir: string or `None`. The folder with `SST-2/`, `MRPC/`...;
            `None` for TensorFlow Datasets.
        sequence_length: int. The largest sequence length in tokens. Longer
            sequences are truncated.
        max_train_rows: int or `None`. Train on so many examples, drawn with
            the seed. `None` for all examples.
        num_buckets: int or `None`. The number of different lengths that batches
            are padded to. XLA compiles each length once. `None` to pad every
            batch to `sequence_length`, for losses that count padding.
        dev_split: string. The split that chooses the best epoch.
        table: `kdkit.data.LabeledTable` or `None`. The user's own table,
            instead of a task with a name.

    Raises:
        pydantic.ValidationError: (a `ValueError`) for wrong fields.
    """

    task: str
    data_dir: str | None
    sequence_length: Length
    max_train_rows: Count | None = None
    num_buckets: Count | None = 8
    dev_split: DevSplit = "dev"
    table: LabeledTable | None = None

    @classmethod
    def of(cls, task: Task, data_dir: str | None = None) -> "DataSettings":
        """Returns the settings of a task's data, with default lengths.

        Args:
            task: `kdkit.tasks.Task`, from `kdkit.tasks.get_task` or
                `kdkit.tasks.from_table`.
            data_dir: string or `None`. The folder with the files of a task
                from `get_task`. Defaults to `None`.
        """
        return cls(task.name, data_dir, task.sequence_length, table=task.table)


def counting_padding(stages) -> list[str]:
    """Returns the objectives whose value depends on a batch's padding."""
    return [
        objective.name
        for stage in stages
        if stage.data != "corpus"
        for objective in stage.objectives
        if objective.loss.counts_padding
    ]


def with_one_length(settings):
    """Returns a run's settings with every batch padded to its full length."""
    data = dataclasses.replace(settings.data, num_buckets=None)
    return dataclasses.replace(settings, data=data)


@dataclass(frozen=True, config=STRICT)
class CorpusSettings:
    """The settings of running text.

    Args:
        files: tuple of strings. Files with one text per line, or tables. Empty
            for the generated sentences of smoke runs.
        column: string or `None`. The column with the texts, for tables.
        held_out: tuple of strings. Files of the same form to measure on.
            Empty to hold out texts from `files`.
        held_out_every: int. Without `held_out`, one in so many texts is held
            out, beginning with the first.
        max_texts: int or `None`. Use only so many first texts of `files`.
            `None` for all texts.
        sequence_length: int. The length in tokens of the sequences that texts
            are packed into.
        masking: `kdkit.data.Masking`, for encoders.
        one_document: bool. For decoders: whether each file is one document
            instead of one text per line. Only whole files are then held out.
        detokenizer: string or `None`. A key of `kdkit.data.DETOKENIZERS`, which
            turns a benchmark's tokens back into running text. `None` for text
            that is not tokenised.
    """

    files: tuple[str, ...] = ()
    column: str | None = None
    held_out: tuple[str, ...] = ()
    held_out_every: Every = 100
    max_texts: Count | None = None
    sequence_length: Length = 128
    masking: Masking = Masking()
    one_document: bool = False
    detokenizer: Literal["ptb", "wikitext"] | None = None

    def __post_init__(self):
        require_files(self)
        if self.one_document and not self.held_out:
            raise UsageError(
                "With one_document, only whole files can be held out. "
                "Received: held_out=()."
            )

    @property
    def all_files(self) -> tuple[str, ...]:
        """The files to train and to measure on."""
        return (*self.files, *self.held_out)

    def texts(self, held_out: bool):
        """Yields the texts to measure on, or the texts to train on."""
        texts = self._texts(held_out)
        if self.detokenizer is None:
            return texts
        return map(DETOKENIZERS[self.detokenizer], texts)

    def num_words(self) -> int:
        """Counts the words to measure on, before any detokenizer.

        Counts as `kdkit.data.Corpus.num_words` does.
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


@dataclass(frozen=True, config=STRICT)
class UnlabeledSettings:
    """The settings of unlabelled text, which the teacher labels.

    Examples that a split for evaluation contains, too, are left out.

    Args:
        files: tuple of strings, as `kdkit.data.read_unlabeled` takes them.
        columns: tuple of strings. The headings of the columns with text; empty
            if every line is one text.
        per_labeled: float. Unlabelled examples per labelled one in an epoch.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...] = ()
    per_labeled: Positive = 1.0


@dataclass(frozen=True, config=STRICT)
class AugmentSettings:
    """The settings for making a file of augmented examples.

    Args:
        task: string. A key of `kdkit.tasks.TASKS`.
        data_dir: string or `None`, as in `DataSettings`.
        model: string. A masked language model with a trained head, as
            `kdkit.models.load_masked_lm` takes it.
        word_vectors: string or `None`. A text file of vectors, such as GloVe's;
            `None` for neighbours in the model's own embeddings.
        stop_words: string or `None`. A file of words that are never replaced,
            one per line; `None` for scikit-learn's English stop words.
        augmentation: `kdkit.augmentation.Augmentation`.
        parity: string or `None`. `"tinybert"` to follow the authors' code
            where it differs from the paper, see docs/fidelity.md.
        seed: int. The random seed.
        table: `kdkit.data.LabeledTable` or `None`, as in `DataSettings`.
    """

    task: str
    data_dir: str | None
    model: str
    word_vectors: str | None = None
    stop_words: str | None = None
    augmentation: Augmentation = Augmentation()
    parity: Literal["tinybert"] | None = None
    seed: Seed = 0
    table: LabeledTable | None = None


@dataclass(frozen=True, config=STRICT)
class AugmentedSettings:
    """The settings of augmented examples, which have their sources' labels.

    Args:
        file: string. A file from `kdkit augment`.
        copies_per_epoch: int or `None`. So many augmented examples of each
            example in an epoch, drawn again for each epoch. `None` for all of
            them in every epoch.
        made_by: `AugmentSettings` or `None`. The settings for making a missing
            file; `None` for a file that exists.
    """

    file: str
    copies_per_epoch: Count | None = None
    made_by: AugmentSettings | None = None


@dataclass(frozen=True, config=STRICT)
class CacheSettings:
    """The settings of the cache of the teachers' outputs.

    Args:
        directory: string. Any runs may share it.
        precision: string. `"fp32"`, `"bf16"` or `"int8"`.
    """

    directory: str
    precision: Literal["fp32", "bf16", "int8"] = "fp32"
