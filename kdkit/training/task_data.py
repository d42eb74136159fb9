"""The rows of a run: a task's splits, encoded, and text without labels."""

import dataclasses
import functools
import logging

import numpy as np

from kdkit import data
from kdkit import tasks
from kdkit.data import AugmentedExamples
from kdkit.data import EncodedExamples
from kdkit.data import evaluation_batches
from kdkit.data import for_any_shape
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.taps import select_inputs
from kdkit.tasks import Task
from kdkit.training.data_settings import AugmentedSettings
from kdkit.training.data_settings import DataSettings
from kdkit.training.data_settings import UnlabeledSettings

_log = logging.getLogger(__name__)


def open_task(settings: DataSettings) -> Task:
    """Returns the task, with the classes that stand in its data."""
    return tasks.get_task(settings.task).for_data(settings.data_dir)


def check_data(task: Task, settings: DataSettings) -> None:
    """Checks that the splits of a run are there.

    Raises:
        UsageError: with all that is missing.
    """
    splits = ("train", settings.dev_split, *task.other_dev_splits)
    task.check_data(dict.fromkeys(splits), settings.data_dir)


def load_split(task: Task, settings: DataSettings, tokenizer, split):
    """Returns a split of a task, encoded for a tokenizer."""
    examples = task.load(split, settings.data_dir)
    return task.encode(examples, tokenizer, settings.sequence_length)


def read_train_and_dev(task: Task, settings: DataSettings) -> list:
    """Reads the rows to train on and those to choose on.

    Raises:
        UsageError: with what is wrong with either.
    """
    splits = ("train", settings.dev_split)
    task.check_data(splits, settings.data_dir)  # tells missing files together
    rows = []
    with all_mistakes() as check:
        for split in splits:
            with check():
                rows.append(task.load(split, settings.data_dir))
    return rows


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingRows:
    """The labelled rows of a run.

    Args:
        encoded: `kdkit.data.EncodedExamples`.
        augmented: `kdkit.data.AugmentedExamples` or `None`. Of rows with
            copies, which then stand in `encoded` too.
        copies_per_epoch: int or `None`, as in `AugmentedSettings`.
    """

    encoded: EncodedExamples
    augmented: AugmentedExamples | None = None
    copies_per_epoch: int | None = None

    @property
    def num_rows(self) -> int:
        """Rows of an epoch."""
        if self.augmented is None:
            return len(self.encoded)
        return self.augmented.num_rows_of_epoch(self.copies_per_epoch)

    def counts(self) -> dict:
        """The fields of an `"augmented"` event, of rows with copies."""
        return {
            "rows": self.augmented.num_labeled,
            "copies": len(self.augmented.sources),
            "left_out": self.augmented.num_left_out,
            "rows_of_epoch": self.num_rows,
        }

    def rows_of_epoch(self, seed: int, num_rows: int | None = None):
        """Returns a function from an epoch to its rows; `None` for all.

        Args:
            seed: int. Seed of what is drawn.
            num_rows: int or `None`. How many rows an epoch has, some of them
                several times; `None` for each of them once. Defaults to `None`.
        """
        some = None
        if self.augmented is not None and self.copies_per_epoch is not None:

            def some(epoch):
                return self.augmented.rows_of_epoch(
                    seed, epoch, self.copies_per_epoch
                )

        if num_rows is None:
            return some
        return data.repeated_rows(len(self.encoded), num_rows, seed, some)


def load_data(
    task: Task,
    settings: DataSettings,
    tokenizer,
    seed,
    augmented: AugmentedSettings | None = None,
    directory=None,
):
    """Reads and encodes train and dev, and says how large they are.

    Args:
        task: `kdkit.tasks.Task`.
        settings: `DataSettings`.
        tokenizer: the teacher's tokenizer.
        seed: int. Seed of the rows that are drawn, if not all are used.
        augmented: `AugmentedSettings` or `None`.
        directory: path. Where tokens of rows with copies are kept.

    Returns:
        Tuple of `TrainingRows` and the `kdkit.data.EncodedExamples` of dev.
    """
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
    dev = task.encode(dev, tokenizer, settings.sequence_length)
    copies = ""
    if training_rows.augmented is not None:
        stored = training_rows.augmented
        copies = (
            f" ({len(stored.sources)} of them copies, "
            f"{stored.num_left_out} more left out that also stand in dev or "
            f"test; {training_rows.num_rows} rows in an epoch)"
        )
    _log.info(
        f"{task.name}: {len(encoded)} rows to train on{copies}, {len(dev)} in "
        f"{settings.dev_split}; "
        f"{encoded.num_truncated} and {dev.num_truncated} cut to "
        f"{settings.sequence_length} tokens.",
    )
    return training_rows, dev


def load_other_dev_splits(task: Task, settings: DataSettings, tokenizer):
    """The dev splits that models are not chosen on, encoded, by name."""
    return {
        split: load_split(task, settings, tokenizer, split)
        for split in task.other_dev_splits
        if split != settings.dev_split
    }


def read_kept_unlabeled(
    task: Task, settings: DataSettings, unlabeled: UnlabeledSettings
):
    """Reads unlabelled rows as text, all and without those of dev and test.

    Args:
        task: `kdkit.tasks.Task`.
        settings: `DataSettings` of the labelled rows.
        unlabeled: `UnlabeledSettings`.

    Returns:
        Tuple of two `kdkit.data.Examples`.

    Raises:
        UsageError: as `load_unlabeled` does.
    """
    if task.head.kind != "sequence":
        raise UsageError(
            "Unlabelled text is for tasks on sentences and pairs. Received: "
            f"task {task.name!r}, {task.kind.title}. Leave it out."
        )
    rows = data.read_unlabeled(
        unlabeled.files, unlabeled.columns, task.num_texts
    )
    splits = kept_apart(task, settings)
    kept = data.without_texts_of(
        rows, [task.load(split, settings.data_dir) for split in splits]
    )
    if not len(rows):
        raise UsageError(
            f"{', '.join(unlabeled.files)}: expected rows of text below the "
            "header. Received: none."
        )
    if not len(kept):
        raise UsageError(
            f"No unlabelled row is left of {len(rows)} in "
            f"{', '.join(unlabeled.files)}: all stand in dev or test."
        )
    return rows, kept


def load_unlabeled(
    task: Task,
    settings: DataSettings,
    unlabeled: UnlabeledSettings,
    tokenizer,
):
    """Reads unlabelled rows, without those of dev and test.

    Args:
        task: `kdkit.tasks.Task`.
        settings: `DataSettings` of the labelled rows.
        unlabeled: `UnlabeledSettings`.
        tokenizer: the teacher's tokenizer.

    Returns:
        Tuple of the encoded rows and a dict that counts what was left out, the
        fields of an `"unlabeled"` event.

    Raises:
        UsageError: for tasks on something else than sentences and pairs, files
            that cannot be read, or if no row is left.
    """
    rows, kept = read_kept_unlabeled(task, settings, unlabeled)
    dropped = len(rows) - len(kept)
    splits = kept_apart(task, settings)
    _log.info(
        f"{len(kept)} rows without labels; {dropped} left out that also stand "
        f"in {', '.join(splits)}.",
    )
    counts = {
        "rows": len(rows),
        "dropped": dropped,
        "compared_with": splits,
        "per_labeled": unlabeled.per_labeled,
    }
    return task.encode(kept, tokenizer, settings.sequence_length), counts


def kept_apart(task: Task, settings: DataSettings) -> list[str]:
    """Returns the splits that are not trained on, those that are here."""
    return [
        split
        for split in task.splits
        if split != "train" and _is_there(task, split, settings.data_dir)
    ]


def _is_there(task, split, data_dir):
    """Whether a split has files here; without any, nothing is kept from it."""
    try:
        task.check_data([split], data_dir)
    except UsageError:
        return False
    return True


BATCH_SIZE = 64
NUM_BUCKETS = 3  # few lengths, since each may be compiled once more


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """Evaluates models on one split, and their agreement with a teacher.

    Args:
        task: `kdkit.tasks.Task`.
        encoded: `kdkit.data.EncodedExamples` of the split, with labels.
        split: string. Name of the split.
        teachers_logits: tuple of arrays as `predict_logits` returns them, one
            per teacher; the first is agreed with. Defaults to `()`.
    """

    task: Task
    encoded: object
    split: str = "dev"
    teachers_logits: tuple[np.ndarray, ...] = ()

    @functools.cached_property
    def _batches(self):
        # Once, not in each epoch: TensorFlow keeps each data set of Python's
        # rows until the process ends.
        return _in_few_lengths(self.encoded)

    def __call__(self, predict) -> dict:
        """Returns the fields of an `"evaluation"` event.

        Args:
            predict: callable from a dict batch to logits.
        """
        logits = predict_logits(predict, self.encoded, self._batches)
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
    """Returns the model's forward pass in inference mode, compiled once.

    Args:
        model: `keras.Model`, a classifier.
    """
    return for_any_shape(
        lambda batch: model(select_inputs(model, batch), training=False)
    )


def _in_few_lengths(encoded):
    return evaluation_batches(encoded, BATCH_SIZE, num_buckets=NUM_BUCKETS)


def predict_logits(predict, encoded, batches=None):
    """Runs a model over encoded rows.

    Args:
        predict: callable from a dict batch to logits.
        encoded: `kdkit.data.EncodedExamples`.
        batches: what `kdkit.data.evaluation_batches` makes of them, `None` to
            make it. Defaults to `None`.

    Returns:
        NumPy array of shape `(num_rows, num_classes)`, in row order; where
        positions have labels, `(num_labels, num_classes)`.
    """
    dataset, order = batches or _in_few_lengths(encoded)
    by_row = {}
    for batch in dataset:
        inputs = batch[0] if isinstance(batch, tuple) else batch
        num_rows = len(inputs["token_ids"]) // encoded.sequences_per_row
        rows = order[len(by_row) : len(by_row) + num_rows]
        answers = encoded.answers(np.asarray(predict(inputs)), rows)
        by_row.update(zip(rows, answers, strict=True))
    return np.concatenate([by_row[row] for row in range(len(encoded))])
