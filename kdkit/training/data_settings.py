"""What a run on a task reads."""

import dataclasses
import itertools
import math

from kdkit.augmentation import Augmentation
from kdkit.data import DETOKENIZERS
from kdkit.data import Corpus
from kdkit.data import Masking
from kdkit.data import load_sentiment
from kdkit.errors import UsageError
from kdkit.settings import too_small
from kdkit.teacher_cache import require_cache_directory
from kdkit.teacher_cache import validate_precision
from kdkit.training.model_settings import check_seed
from kdkit.training.model_settings import check_text_numbers

LEAST = {"sequence_length": 3, "max_train_rows": 1, "num_buckets": 1}


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """What a run trains and evaluates on.

    Args:
        task: string. A key of `kdkit.tasks.TASKS`.
        data_dir: string or `None`. The root that holds `SST-2/`, `MRPC/`...;
            `None` for TensorFlow Datasets.
        sequence_length: int. Longest sequence in tokens; longer ones are cut.
        max_train_rows: int or `None`. Train on so many rows, drawn with the
            seed. `None` for all of them.
        num_buckets: int or `None`. Number of different lengths that batches
            are padded to, each of which XLA compiles once. `None` to pad every
            batch to `sequence_length`, for losses that count padding.
        dev_split: string. The split by which epochs are chosen.

    Raises:
        UsageError: (a `ValueError`) if a number is impossible, or `dev_split`
            is a test split or the training data.
    """

    task: str
    data_dir: str | None
    sequence_length: int
    max_train_rows: int | None = None
    num_buckets: int | None = 8
    dev_split: str = "dev"

    def __post_init__(self):
        problems = []
        least = dict(LEAST)
        if self.num_buckets is None:
            del least["num_buckets"]
        if wrong := too_small(self, least):
            problems.append(f"Settings of data: {'; '.join(wrong)}.")
        if self.dev_split.startswith(("test", "train")):
            problems.append(
                "Models are chosen on a dev split, never on test or training "
                f"data. Received: dev_split={self.dev_split!r}. Use "
                "dev_split=dev, and kdkit evaluate --split for the others."
            )
        if problems:
            raise UsageError("\n".join(problems))


def counting_padding(stages) -> list[str]:
    """Returns the objectives whose value depends on a batch's padding.

    Args:
        stages: tuple of `Stage`.

    Returns:
        A list of their names.
    """
    return [
        objective.name
        for stage in stages
        if stage.data == "task"
        for objective in stage.objectives
        if objective.loss.counts_padding
    ]


def with_one_length(settings):
    """Returns a run's settings with every batch padded to its full length.

    Args:
        settings: `DistillSettings`.
    """
    data = dataclasses.replace(settings.data, num_buckets=None)
    return dataclasses.replace(settings, data=data)


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


@dataclasses.dataclass(frozen=True)
class UnlabeledSettings:
    """Texts without labels, which the teacher labels.

    Rows that also stand in a split of the task that is not trained on are left
    out.

    Args:
        files: tuple of strings. As `kdkit.data.read_unlabeled` takes them.
        columns: tuple of strings. The headings of their columns of text; empty
            where every line is one text.
        per_labeled: float. Unlabelled rows of an epoch for each labelled one.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...] = ()
    per_labeled: float = 1.0

    def __post_init__(self):
        if not self.files:
            raise UsageError(
                "Unlabelled text needs at least one file. Received: none."
            )
        if not 0 < self.per_labeled < math.inf:
            raise UsageError(
                "`per_labeled`, unlabelled rows for each labelled one, must "
                f"be above 0 and finite. Received: {self.per_labeled}."
            )


@dataclasses.dataclass(frozen=True)
class AugmentSettings:
    """How a file of augmented rows is made.

    Args:
        task: string. A key of `kdkit.tasks.TASKS`.
        data_dir: string or `None`, as in `DataSettings`.
        model: string. A masked-language model with a trained head, as
            `kdkit.models.load_masked_lm` takes it.
        word_vectors: string or `None`. A text file of vectors, as GloVe's are;
            `None` for neighbours in the model's own embeddings.
        stop_words: string or `None`. A file of words that stay, one a line;
            `None` for scikit-learn's English ones.
        augmentation: `kdkit.augmentation.Augmentation`.
        parity: string or `None`. `"tinybert"` for what the authors' code does
            beyond the paper, see docs/fidelity.md.
        seed: int. Seed of the draws.
    """

    task: str
    data_dir: str | None
    model: str
    word_vectors: str | None = None
    stop_words: str | None = None
    augmentation: Augmentation = Augmentation()
    parity: str | None = None
    seed: int = 0

    def __post_init__(self):
        check_seed(self.seed)
        if self.parity not in (None, "tinybert"):
            raise UsageError(
                "Augmentation: parity must be None or 'tinybert'. Received: "
                f"{self.parity!r}."
            )


@dataclasses.dataclass(frozen=True)
class AugmentedSettings:
    """Augmented copies of the training rows, with the labels of these.

    Args:
        file: string. The copies, as `kdkit augment` writes them.
        copies_per_epoch: int or `None`. So many copies of each row in an
            epoch, drawn anew for each. `None` for all copies in every epoch.
        made_by: `AugmentSettings` or `None`. How the file is made where it is
            not there; `None` for a file that is there.
    """

    file: str
    copies_per_epoch: int | None = None
    made_by: AugmentSettings | None = None

    def __post_init__(self):
        if self.copies_per_epoch is not None and self.copies_per_epoch < 1:
            raise UsageError(
                "`copies_per_epoch` must be at least 1. Received: "
                f"{self.copies_per_epoch}."
            )


@dataclasses.dataclass(frozen=True)
class CacheSettings:
    """Where the teacher's outputs are kept, so that it is run only once.

    Args:
        directory: string. Shared by all runs with the same teachers.
        precision: string. `"fp32"`, `"bf16"` or `"int8"`.
        teacher_file: string or `None`. An exported file of the teacher
            (`.tflite`, `.onnx` or a SavedModel), which is run in its place and
            gives logits alone.
    """

    directory: str
    precision: str = "fp32"
    teacher_file: str | None = None

    def __post_init__(self):
        validate_precision(self.precision)

    def check(self) -> None:
        """Checks the place, before any work.

        Raises:
            UsageError: if there can be no cache.
        """
        require_cache_directory(self.directory)

    def problems(self, objectives, num_teachers: int) -> list[str]:
        """Returns what cannot be learned from outputs that were kept.

        Args:
            objectives: list of the `kdkit.Objective` that read the cache.
            num_teachers: int. How many teachers the run has.
        """
        problems = []
        counted = [
            objective.name
            for objective in objectives
            if objective.loss.counts_padding
        ]
        if counted:
            problems.append(
                f"{', '.join(counted)} with parity 'tinybert' compare padding "
                "too, of which a cache keeps nothing"
            )
        if self.teacher_file is None:
            return problems
        if num_teachers > 1:
            problems.append(
                "a teacher's exported file is for a run with one teacher, "
                f"received {num_teachers}"
            )
        inside = [
            f"{objective.name} ({objective.tap})"
            for objective in objectives
            if objective.tap != "logits"
        ]
        if inside:
            problems.append(
                "the teacher's exported file gives logits alone, and "
                f"{', '.join(inside)} compare what is inside of it: leave the "
                "file out, or choose --stages without them"
            )
        return problems
