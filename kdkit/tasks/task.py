"""A task: where its rows come from and what is measured on them."""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterable

from kdkit.data.examples import Examples
from kdkit.data.tables import TableLayout
from kdkit.data.tables import read_table
from kdkit.data.tables import require_tables
from kdkit.data.tfds import TfdsLayout
from kdkit.data.tfds import read_tfds
from kdkit.errors import UsageError
from kdkit.tasks import metrics


@dataclasses.dataclass(frozen=True)
class Task:
    """A classification or regression of sentences or pairs.

    Args:
        name: string. Name on the command line.
        num_texts: int. 1 for sentences, 2 for pairs.
        class_names: tuple of strings in the order of the class numbers, or
            `None` for regression.
        metrics: tuple of keys of `kdkit.tasks.metrics.METRICS`.
        primary_metric: string. The one by which models are chosen; larger is
            better.
        layout: `TableLayout` of the official files.
        tfds: `TfdsLayout`. Name in TensorFlow Datasets.
        generate: callable from split to `Examples`, for a task without files.
        generated_splits: tuple of the splits that `generate` knows.
    """

    name: str
    num_texts: int
    class_names: tuple[str, ...] | None
    metrics: tuple[str, ...]
    primary_metric: str
    layout: TableLayout | None = None
    tfds: TfdsLayout | None = None
    generate: Callable[[str], Examples] | None = None
    generated_splits: tuple[str, ...] = ()

    @property
    def is_regression(self) -> bool:
        """Whether the labels are scores."""
        return self.class_names is None

    @property
    def num_classes(self) -> int:
        """Number of logits; 1 for regression."""
        return 1 if self.is_regression else len(self.class_names)

    @property
    def sequence_length(self) -> int:
        """TinyBERT's maximum length: 64 for sentences, 128 for pairs."""
        return 64 if self.num_texts == 1 else 128

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return self.generated_splits or tuple(self.layout.files)

    def check_data(self, splits: Iterable[str], data_dir=None) -> None:
        """Checks without reading that the splits can be loaded.

        Raises:
            UsageError: for unknown splits, and with all missing files.
        """
        unknown = [split for split in splits if split not in self.splits]
        if unknown:
            raise UsageError(
                f"Unknown split of task {self.name!r}. Expected one of "
                f"{self.splits}. Received: {', '.join(map(repr, unknown))}."
            )
        if data_dir is None:
            return
        if self.generate is not None:
            raise UsageError(
                f"Task {self.name!r} is generated and reads no files. "
                f"Received: data_dir={str(data_dir)!r}. Leave it out."
            )
        require_tables(self.layout, splits, data_dir)

    def load(self, split: str, data_dir=None) -> Examples:
        """Reads one split.

        Args:
            split: string. One of `splits`.
            data_dir: path of the directory that holds `SST-2/`, `MRPC/` and so
                on, or `None` to use TensorFlow Datasets.

        Returns:
            `Examples`; test splits have no labels.

        Raises:
            UsageError: if the split is unknown, or its data missing or
                malformed.
        """
        self.check_data([split], data_dir)
        if self.generate is not None:
            return self.generate(split)
        if data_dir is None:
            return read_tfds(self.tfds, split)
        return read_table(self.layout.path(split, data_dir), self.layout)

    def compute_metrics(self, labels, logits) -> dict[str, float]:
        """Returns the task's metrics.

        Args:
            labels: int or float array of shape `(num_rows,)`.
            logits: float array of shape `(num_rows, num_classes)`.
        """
        return metrics.compute_metrics(
            self.metrics, labels, logits, self.num_classes
        )
