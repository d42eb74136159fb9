"""The settings of what a student learns from beside the labelled rows."""

import dataclasses
import math

from kdkit.augmentation import Augmentation
from kdkit.errors import UsageError
from kdkit.teacher_cache import check_place
from kdkit.teacher_cache import check_precision
from kdkit.training.seeds import check_seed


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
        check_precision(self.precision)

    def check(self) -> None:
        """Checks the place, before any work.

        Raises:
            UsageError: if there can be no cache.
        """
        check_place(self.directory)

    def problems(self, objectives, num_teachers: int) -> list[str]:
        """Returns what cannot be learned from outputs that were kept.

        Args:
            objectives: list of the `ObjectiveSettings` that read the cache.
            num_teachers: int. How many teachers the run has.
        """
        problems = []
        counted = [
            objective.name
            for objective in objectives
            if objective.loss_settings.get("parity") == "tinybert"
            and objective.tap != "logits"
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
