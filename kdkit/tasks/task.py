"""The `Task`: its data, its kind and its metrics."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from kdkit import models
from kdkit.data.own_tables import LabeledTable
from kdkit.data.tables import Examples
from kdkit.data.tfds import TfdsLayout, read_tfds
from kdkit.errors import UsageError, require_extra, unknown
from kdkit.tasks.kinds import Kind, Regression
from kdkit.tasks.metrics import require_metrics


@dataclasses.dataclass(frozen=True)
class Task:
    """A task for a model: its data, labels and metrics.

    Args:
        name: string. Name on the command line.
        kind: `Kind`. The meaning of labels and logits.
        metrics: tuple of keys of `kdkit.tasks.metrics.METRICS`.
        primary_metric: string. The metric for choosing models; larger is
            better.
        num_texts: int. 1 for sentences, 2 for pairs. Defaults to 1.
        longest: int or `None`. The default length in tokens for truncation.
            `None` for TinyBERT's: 64 for sentences, 128 for pairs.
        layout: the format of the official files, such as
            `kdkit.data.TableLayout`. Its `files` is a dict with the splits as
            keys, its `class_names` a tuple or `None`;
            `for_data(data_dir)` returns the layout with the classes that the
            data define, `require(splits, data_dir)` requires that the files
            exist, and `read(split, data_dir)` returns `Examples`.
        tfds: `TfdsLayout`. The data set in TensorFlow Datasets.
        generate: callable from split to `Examples`, for a task without files.
        generated_splits: tuple of the splits that `generate` accepts.
        other_dev_splits: tuple of dev splits that do not choose models. A run
            measures its final models on them.
        table: `kdkit.data.LabeledTable`, for a task made by
            `kdkit.tasks.from_table`. It names its files, so that methods need
            no `data_dir`.
        known: dict of the splits that a run has read, to which `load` adds;
            `None` to read a split each time. Defaults to `None`.
    """

    name: str
    kind: Kind
    metrics: tuple[str, ...]
    primary_metric: str
    num_texts: int = 1
    longest: int | None = None
    layout: Any = None
    tfds: TfdsLayout | None = None
    generate: Callable[[str], Examples] | None = None
    generated_splits: tuple[str, ...] = ()
    other_dev_splits: tuple[str, ...] = ()
    table: LabeledTable | None = None
    known: dict | None = dataclasses.field(
        default=None, compare=False, repr=False
    )

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Names in the order of the class numbers, `None` without classes."""
        return self.kind.class_names

    @property
    def is_regression(self) -> bool:
        """Whether the labels are scores."""
        return isinstance(self.kind, Regression)

    @property
    def num_classes(self) -> int:
        """Number of logits; 1 for regression."""
        return self.kind.num_classes

    @property
    def has_classes_in_data(self) -> bool:
        """Whether the data define the classes and have not been read yet."""
        return self.class_names is None and not self.is_regression

    @property
    def head(self) -> "models.Head":
        """The head that a model needs."""
        return self.kind.head

    @property
    def sequence_length(self) -> int:
        """The default length in tokens for truncation."""
        return self.longest or (64 if self.num_texts == 1 else 128)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        if self.table is not None:
            return tuple(self.table.files)
        return self.generated_splits or tuple(self.layout.files)

    def for_data(self, data_dir) -> "Task":
        """Returns the task with the classes that its data define.

        Most tasks have fixed classes and are returned unchanged.

        Args:
            data_dir: path of the data directory, or `None`.

        Raises:
            UsageError: if the data define the classes and are missing.
        """
        if not self.has_classes_in_data:
            return self
        self._require_data_dir(data_dir)
        layout = self.layout.for_data(data_dir)
        kind = self.kind.for_layout(layout)
        return dataclasses.replace(self, layout=layout, kind=kind)

    def check_data(self, splits: Iterable[str], data_dir=None) -> None:
        """Checks that the splits can be loaded, without reading them.

        Raises:
            UsageError: for an unknown split, a task without data, and a
                package that the task needs and that is not installed.
        """
        require_metrics(self.metrics)
        if data_dir is not None and self.layout is None:
            raise UsageError(
                f"data_dir={str(data_dir)!r} is not read by {self.name}, "
                "which has data of its own."
            )
        for split in splits:
            if split not in self.splits:
                raise unknown(f"split of {self.name}", split, self.splits)
        if self.table is not None:
            self.table.require(splits)
        elif data_dir is not None:
            self.layout.require(splits, data_dir)
        elif self.generate is None:
            self._require_data_dir(data_dir)
            require_extra("tfds", "tensorflow_datasets")

    def load(self, split: str, data_dir=None) -> Examples:
        """Reads one split.

        Args:
            split: string. One of `splits`.
            data_dir: path of the directory that contains `SST-2/`, `MRPC/` and
                so on, or `None` for TensorFlow Datasets.

        Returns:
            `Examples`, or the corresponding class for the task's kind. GLUE's
            test splits have no labels.

        Raises:
            UsageError: as `check_data`, and if the data are malformed.
        """
        self.check_data([split], data_dir)
        known = {} if self.known is None else self.known
        if (split, data_dir) not in known:
            known[split, data_dir] = self._read(split, data_dir)
        return known[split, data_dir]

    def _read(self, split, data_dir):
        if self.table is not None:
            return self.table.read(split)
        if self.generate is not None:
            return self.generate(split)
        if data_dir is None:
            return read_tfds(self.tfds, split)
        return self.for_data(data_dir).layout.read(split, data_dir)

    def encode(self, examples, tokenizer, sequence_length: int):
        """Tokenizes examples for a model of the task.

        Args:
            examples: the result of `load`.
            tokenizer: `keras_hub.models.BertTokenizer`.
            sequence_length: int. The maximum number of tokens per sequence.

        Returns:
            `kdkit.data.EncodedExamples`.
        """
        return self.kind.encode(examples, tokenizer, sequence_length)

    def compute_metrics(self, labels, logits) -> dict[str, float]:
        """Computes the task's metrics.

        Args:
            labels: int or float array of shape `(num_rows,)`; `(num_rows,
                num_classes)` for multi-label tasks; for tasks with a label per
                token a list of int arrays, one per example, as in
                `kdkit.data.EncodedTokens.targets`.
            logits: float array of shape `(num_labels, num_classes)`; truncated
                words have none.
        """
        return self.kind.compute_metrics(self.metrics, labels, logits)

    def _require_data_dir(self, data_dir):
        if data_dir is None and self.generate is None and self.tfds is None:
            raise UsageError(
                f"Task {self.name!r} reads local files. Pass --data-dir DIR "
                "(Python: data_dir=)."
            )
