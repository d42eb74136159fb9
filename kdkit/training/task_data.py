"""Reads and encodes the examples of a task, and evaluates models on them."""

import dataclasses
import functools
import logging

import numpy as np

from kdkit import data, tasks
from kdkit.data import (
    AugmentedExamples,
    BatchStream,
    Buckets,
    EncodedExamples,
    for_any_shape,
)
from kdkit.errors import UsageError
from kdkit.taps import select_inputs
from kdkit.tasks import Task
from kdkit.training.data_settings import (
    AugmentedSettings,
    AugmentSettings,
    DataSettings,
    UnlabeledSettings,
)
from kdkit.training.embedding_settings import TextsSettings

_log = logging.getLogger(__name__)


def open_task(settings: DataSettings | AugmentSettings | TextsSettings) -> Task:
    """Returns the task, with its classes from the data."""
    if settings.table is not None:
        return tasks.task_of_table(settings.table, settings.task)
    return tasks.get_task(settings.task).for_data(settings.data_dir)


def open_pairs(settings: TextsSettings) -> Task | None:
    """Returns the task whose pairs measure models, `None` without one."""
    if settings.task is None:
        return None
    task = open_task(settings)
    if not (task.is_regression and task.num_texts == 2):
        raise UsageError(
            "Sentence encoders are measured on pairs of texts with scores, "
            f"such as stsb. Received: task {task.name!r}."
        )
    return task


def check_data(task: Task, settings: DataSettings) -> None:
    """Checks that the files of a run's splits exist."""
    splits = ("train", settings.dev_split, *task.other_dev_splits)
    task.check_data(dict.fromkeys(splits), settings.data_dir)


def load_split(task: Task, settings: DataSettings, tokenizer, split):
    """Returns a split of a task, encoded for a tokenizer."""
    examples = task.load(split, settings.data_dir)
    return task.encode(examples, tokenizer, settings.sequence_length)


def read_train_and_dev(task: Task, settings: DataSettings) -> list:
    """Reads the training examples and the examples of dev."""
    return [
        task.load(split, settings.data_dir)
        for split in ("train", settings.dev_split)
    ]


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingRows:
    """The labelled examples of a run."""

    encoded: EncodedExamples
    augmented: AugmentedExamples | None = None
    copies_per_epoch: int | None = None

    @property
    def num_labeled(self) -> int:
        """The number of the task's own examples, without augmented ones."""
        if self.augmented is None:
            return len(self.encoded)
        return self.augmented.num_labeled

    @property
    def num_rows(self) -> int:
        """The number of examples in an epoch."""
        if self.augmented is None:
            return len(self.encoded)
        return self.augmented.num_rows_of_epoch(self.copies_per_epoch)

    def counts(self) -> dict:
        """Returns the fields of an `"augmented"` event."""
        return {
            "rows": self.augmented.num_labeled,
            "copies": len(self.augmented.sources),
            "left_out": self.augmented.num_left_out,
            "rows_of_epoch": self.num_rows,
        }

    @property
    def rows_of_epoch(self):
        """The `rows_of_epoch` for `kdkit.data.Buckets`; `None` for all."""
        if self.augmented is None or self.copies_per_epoch is None:
            return None
        return functools.partial(
            self.augmented.rows_of_epoch, per_row=self.copies_per_epoch
        )


def load_data(
    task: Task,
    settings: DataSettings,
    tokenizer,
    seed,
    augmented: AugmentedSettings | None = None,
    directory=None,
):
    """Reads and encodes train and dev, and prints their sizes."""
    train, dev = read_train_and_dev(task, settings)
    rows = None
    if settings.max_train_rows and settings.max_train_rows < len(train):
        rows = np.random.default_rng(seed).permutation(len(train))
        rows = np.sort(rows[: settings.max_train_rows])
    if augmented is None:
        chosen = train if rows is None else train.take(rows)
        training_rows = TrainingRows(
            task.encode(chosen, tokenizer, settings.sequence_length)
        )
    else:
        known = [
            task.load(split, settings.data_dir)
            for split in kept_apart(task, settings)
        ]
        stored = data.store_augmented(
            train,
            augmented.file,
            tokenizer,
            settings.sequence_length,
            directory,
            rows,
            known,
        )
        training_rows = TrainingRows(
            stored.encoded, stored, augmented.copies_per_epoch
        )
    encoded = training_rows.encoded
    if task.table is not None:
        for split in ("train", settings.dev_split):
            _log.info(task.table.description(split))
    dev = task.encode(dev, tokenizer, settings.sequence_length)
    copies = ""
    if training_rows.augmented is not None:
        stored = training_rows.augmented
        copies = (
            f" ({len(stored.sources)} of them augmented; "
            f"{stored.num_left_out} more left out because dev or test "
            f"contains them; {training_rows.num_rows} in an epoch)"
        )
    _log.info(
        f"{task.name}: {len(encoded)} examples to train on{copies}, "
        f"{len(dev)} in "
        f"{settings.dev_split}; "
        f"{encoded.num_truncated} and {dev.num_truncated} truncated to "
        f"{settings.sequence_length} tokens.",
    )
    return training_rows, dev


def load_other_dev_splits(task: Task, settings: DataSettings, tokenizer):
    """Returns the other dev splits, encoded, by name."""
    return {
        split: load_split(task, settings, tokenizer, split)
        for split in task.other_dev_splits
        if split != settings.dev_split
    }


def read_kept_unlabeled(
    task: Task, settings: DataSettings, unlabeled: UnlabeledSettings
):
    """Reads unlabelled examples, with and without those in dev or test."""
    rows = data.read_unlabeled(
        unlabeled.files, unlabeled.columns, task.num_texts
    )
    splits = kept_apart(task, settings)
    kept = data.without_texts_of(
        rows, [task.load(split, settings.data_dir) for split in splits]
    )
    if not len(kept):
        raise UsageError(
            f"None of {len(rows)} unlabelled examples is left: dev or test "
            "contains all of them."
        )
    return rows, kept


def load_unlabeled(
    task: Task,
    settings: DataSettings,
    unlabeled: UnlabeledSettings,
    tokenizer,
):
    """Reads and encodes unlabelled examples that are not in dev or test."""
    rows, kept = read_kept_unlabeled(task, settings, unlabeled)
    dropped = len(rows) - len(kept)
    splits = kept_apart(task, settings)
    _log.info(
        f"{len(kept)} unlabelled examples; {dropped} left out because "
        f"{', '.join(splits)} contain them.",
    )
    counts = {
        "rows": len(rows),
        "dropped": dropped,
        "compared_with": splits,
        "per_labeled": unlabeled.per_labeled,
    }
    return task.encode(kept, tokenizer, settings.sequence_length), counts


def kept_apart(task: Task, settings: DataSettings) -> list[str]:
    """Returns the splits for evaluation whose files exist."""
    return [
        split
        for split in task.splits
        if split != "train" and _is_there(task, split, settings.data_dir)
    ]


def _is_there(task, split, data_dir):
    """Whether the files of a split exist."""
    try:
        task.check_data([split], data_dir)
    except (OSError, UsageError):
        return False
    return True


BATCH_SIZE = 64
NUM_BUCKETS = 3  # few lengths, because each may need a compilation


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """Evaluates models on one split, and their agreement with a teacher."""

    task: Task
    encoded: object
    split: str = "dev"
    teachers_logits: tuple[np.ndarray, ...] = ()

    @functools.cached_property
    def _batches(self):
        # Once, not in each epoch: TensorFlow frees a data set from a Python
        # generator only when the process ends.
        return _in_few_lengths(self.encoded)

    def logits(self, predict) -> np.ndarray:
        """Returns a model's logits on the split, as `predict_logits` does."""
        return predict_logits(predict, self.encoded, self._batches)

    def __call__(self, predict) -> dict:
        """Returns the fields of an `"evaluation"` event."""
        logits = self.logits(predict)
        agrees = None
        if self.teachers_logits:
            agrees = self.task.kind.agreement(self.teachers_logits[0], logits)
        return {
            "split": self.split,
            "examples": len(self.encoded),
            "metrics": self.task.compute_metrics(self.encoded.targets, logits),
            "agreement": agrees,
            "collapsed": self.task.kind.collapse(self.encoded.targets, logits),
        }


def make_forward(model):
    """Returns the model's forward pass in inference mode, compiled once."""
    return for_any_shape(
        lambda batch: model(select_inputs(model, batch), training=False)
    )


def _in_few_lengths(encoded):
    """The numbers of each batch's examples, and the data set of batches."""
    stream = BatchStream(encoded, Buckets(BATCH_SIZE, NUM_BUCKETS))
    return [rows for rows, _ in stream.evaluation_batches], stream.evaluation()


def predict_logits(predict, encoded, batches=None):
    """Runs a model over encoded examples."""
    by_row = {}
    for rows, batch in zip(*(batches or _in_few_lengths(encoded)), strict=True):
        inputs = batch[0] if isinstance(batch, tuple) else batch
        answers = encoded.answers(np.asarray(predict(inputs)), rows)
        by_row.update(zip(rows, answers, strict=True))
    return np.concatenate([by_row[row] for row in range(len(encoded))])
