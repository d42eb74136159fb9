"""The examples of a task as a source: labelled, augmented and unlabelled."""

import dataclasses
import functools
import logging
from collections.abc import Callable

import numpy as np

from kdkit import tasks
from kdkit.config.data import TaskData, Unlabeled
from kdkit.config.runs import TaskConfig
from kdkit.data import EncodedExamples
from kdkit.data.augmented import rows_with_copies, store_augmented
from kdkit.data.unlabeled import (
    mix_unlabeled,
    read_unlabeled,
    repeated_rows,
    unlabeled_rows,
    without_texts_of,
)
from kdkit.errors import UsageError
from kdkit.recipes.stages import Stage
from kdkit.taps import TEACHER_OUTPUTS, Entry
from kdkit.tasks import Task
from kdkit.training.source import (
    Outputs,
    Source,
    bucket_orders,
    measured,
    predict_logits,
    reader,
)

_log = logging.getLogger(__name__)
LOGITS = Entry("logits")


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingRows:
    """The labelled examples of a run.

    Args:
        encoded: `EncodedExamples`.
        rows_of_epoch: as of `kdkit.data.Buckets`. Defaults to `None`.
        counts: dict. The fields of an `"augmented"` event, or `None` without
            augmented examples. Defaults to `None`.
    """

    encoded: EncodedExamples
    rows_of_epoch: Callable[[int, int], np.ndarray] | None = None
    counts: dict | None = None

    @property
    def num_labeled(self) -> int:
        """The number of the task's own examples, without augmented ones."""
        return self.counts["rows"] if self.counts else len(self.encoded)

    @property
    def num_rows(self) -> int:
        """The number of examples in an epoch."""
        return (
            self.counts["rows_of_epoch"] if self.counts else len(self.encoded)
        )


def augmented_rows(
    encoded: EncodedExamples,
    sources: np.ndarray,
    num_left_out: int,
    copies_per_epoch: int | None,
) -> TrainingRows:
    """Returns labelled examples with augmented ones, see `store_augmented`."""
    num_labeled, count, order = len(encoded) - len(sources), len(encoded), None
    if copies_per_epoch is not None:
        order = rows_with_copies(sources, num_labeled, copies_per_epoch)
        count = len(order(0, 0))
    counts = {
        "rows": num_labeled,
        "copies": len(sources),
        "left_out": num_left_out,
        "rows_of_epoch": count,
    }
    return TrainingRows(encoded, order, counts)


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """Evaluates models on one split, and their agreement with a teacher.

    Args:
        task: `Task`.
        encoded: the encoded examples of the split.
        split: string. Defaults to `"dev"`.
        teachers: tuple of the teachers' forward passes. Defaults to none.
    """

    task: Task
    encoded: object
    split: str = "dev"
    teachers: tuple[Callable, ...] = ()

    @functools.cached_property
    def teachers_logits(self) -> tuple[np.ndarray, ...]:
        """The logits of each teacher on the split."""
        return tuple(
            predict_logits(forward, self.encoded) for forward in self.teachers
        )

    @functools.cached_property
    def logits(self):
        """A function that returns a model's logits on the split."""
        return reader(self.encoded)

    def __call__(self, predict) -> dict:
        """Returns the fields of an `"evaluation"` event."""
        logits, kind = self.logits(predict), self.task.kind
        targets, agrees = self.encoded.targets, None
        if self.teachers_logits:
            agrees = kind.agreement(self.teachers_logits[0], logits)
        metrics = self.task.compute_metrics(targets, logits)
        return measured(self.split, self.encoded, metrics) | {
            "agreement": agrees,
            "collapsed": kind.collapse(targets, logits),
        }


def task_source(
    labeled: TrainingRows,
    evaluator: Evaluator,
    num_buckets: int | None,
    unlabeled: EncodedExamples | None = None,
    per_labeled: float = 1.0,
    num_rows: int | None = None,
    **fields,
) -> Source:
    """Returns the examples of a task as a source."""
    examples, rows = labeled.encoded, labeled.rows_of_epoch
    without_teacher = None
    if num_rows is not None:
        rows = repeated_rows(len(examples), num_rows, rows)
    if unlabeled is not None:
        examples, rows = mix_unlabeled(examples, unlabeled, per_labeled, rows)
        without_teacher = functools.partial(
            task_source, labeled, evaluator, num_buckets, num_rows=num_rows
        )
    kind = evaluator.task.kind
    return Source(
        examples,
        evaluator.encoded,
        **bucket_orders(num_buckets, rows),
        evaluate=evaluator,
        metric=evaluator.task.primary_metric,
        larger_is_better=True,
        label_loss=kind.label_loss(),
        training_metrics=kind.training_metrics,
        known_outputs=functools.partial(dev_logits, evaluator),
        without_teacher=without_teacher,
        **fields,
    )


def dev_logits(evaluator: Evaluator, stage: Stage) -> Outputs | None:
    """Returns the teachers' logits on dev, if a stage reads nothing else."""
    taps = {objective.tap for objective in stage.objectives}
    if (
        taps != {LOGITS.tap}
        or not evaluator.teachers
        or evaluator.task.kind.has_label_per_token
    ):
        return None
    return lambda rows, padded_length: {
        TEACHER_OUTPUTS: tuple(
            {LOGITS.name: logits[rows]} for logits in evaluator.teachers_logits
        )
    }


def open_task(settings: TaskData) -> Task:
    """Returns the task, with its classes from the data.

    Each split is read once, and stays in memory as long as the task.
    """
    if settings.table is not None:
        task = tasks.task_of_table(settings.table, settings.task)
    else:
        task = tasks.get_task(settings.task).for_data(settings.data_dir)
    return dataclasses.replace(task, known={})


def require_smoothable_labels(arms: dict, task: Task) -> None:
    """Requires that smoothed labels give nothing to impossible classes."""
    smoothed = [
        stage.name
        for stages in arms.values()
        for stage in stages
        if stage.label_smoothing and stage.data == "task"
    ]
    if smoothed and task.head.candidates is not None:
        raise UsageError(
            f"{task.name!r} has few possible labels for each token. Expected "
            f"label_smoothing=0 in {', '.join(smoothed)}."
        )


def read_train_and_dev(task: Task, settings: TaskData) -> list:
    """Reads the training examples and the examples of dev."""
    splits = ("train", settings.dev_split)
    others = (name for name in task.other_dev_splits if name not in splits)
    task.check_data((*splits, *others), settings.data_dir)
    return _read_all(task, settings, splits)


@dataclasses.dataclass(frozen=True, eq=False)
class TaskRows:
    """The encoded examples of a run: to train on, and of each dev split."""

    train: TrainingRows
    dev: dict[str, EncodedExamples]
    config: TaskConfig
    unlabeled: EncodedExamples | None = None
    counts: dict | None = None

    def evaluators(self, task: Task, teachers: tuple) -> list[Evaluator]:
        """Returns an evaluator for each dev split, the chosen one first."""
        return [
            Evaluator(task, encoded, split, teachers)
            for split, encoded in self.dev.items()
        ]

    def source(self, evaluator: Evaluator) -> Source:
        """Returns the source that the stages train on."""
        train, unlabeled = self.train, self.unlabeled
        buckets, per_labeled = self.config.data.num_buckets, 1.0
        control = None
        if unlabeled is not None:
            per_labeled = self.config.unlabeled.per_labeled
            count = train.num_rows
            count += unlabeled_rows(count, len(unlabeled), per_labeled)
            control = functools.partial(
                task_source, train, evaluator, buckets, num_rows=count
            )
        return task_source(
            train,
            evaluator,
            buckets,
            unlabeled,
            per_labeled,
            control=control,
            counts=self.counts,
            augmented=train.counts,
        )


def load_task(
    config: TaskConfig, task: Task, rows: list, tokenizer, folder
) -> TaskRows:
    """Encodes the examples of a run, and logs their numbers.

    Args:
        config: `TaskConfig`.
        task: its `Task`.
        rows: list of the examples to train on and those of dev.
        tokenizer: the tokenizer of all models.
        folder: path of the run directory.
    """
    settings, (train, dev), copies = config.data, rows, ""
    encode = functools.partial(
        task.encode,
        tokenizer=tokenizer,
        sequence_length=settings.sequence_length,
    )
    drawn = drawn_rows(
        len(train), settings.max_train_rows, config.training.seed
    )
    if config.augmented is None:
        labeled = TrainingRows(encode(train.take(drawn)))
    else:
        stored = store_augmented(
            train,
            config.augmented.file,
            tokenizer,
            settings.sequence_length,
            folder / "augmented",
            drawn,
            _read_all(task, settings, kept_apart(task, settings)),
        )
        labeled = augmented_rows(*stored, config.augmented.copies_per_epoch)
        copies = (
            " ({copies} of them augmented; {left_out} more left out because "
            "dev or test contains them; {rows_of_epoch} in an epoch)"
        ).format_map(labeled.counts)
    if task.table is not None:
        for split in ("train", settings.dev_split):
            _log.info(task.table.description(split))
    splits = {settings.dev_split: encode(dev)}
    for split in task.other_dev_splits:
        if split not in splits:
            splits[split] = encode(task.load(split, settings.data_dir))
    encoded, dev = labeled.encoded, splits[settings.dev_split]
    _log.info(
        f"{task.name}: {len(encoded)} examples to train on{copies}, "
        f"{len(dev)} in {settings.dev_split}; {encoded.num_truncated} and "
        f"{dev.num_truncated} truncated to {settings.sequence_length} tokens."
    )
    if config.unlabeled is None:
        return TaskRows(labeled, splits, config)
    read, kept = read_kept_unlabeled(task, settings, config.unlabeled)
    counts = {
        "rows": len(read),
        "dropped": len(read) - len(kept),
        "compared_with": kept_apart(task, settings),
        "per_labeled": config.unlabeled.per_labeled,
    }
    _log.info(
        f"{len(kept)} unlabelled examples; {counts['dropped']} left out "
        f"because {', '.join(counts['compared_with'])} contain them."
    )
    return TaskRows(labeled, splits, config, encode(kept), counts)


def drawn_rows(count: int, most: int | None, seed: int) -> np.ndarray:
    """Returns the numbers of the examples to train on."""
    order = np.arange(count)
    if most and most < count:
        order = np.random.default_rng(seed).permutation(count)
    return np.sort(order[:most])


def read_kept_unlabeled(task: Task, settings: TaskData, unlabeled: Unlabeled):
    """Reads unlabelled examples, with and without those in dev or test."""
    rows = read_unlabeled(unlabeled.files, unlabeled.columns, task.num_texts)
    known = _read_all(task, settings, kept_apart(task, settings))
    kept = without_texts_of(rows, known)
    if not len(kept):
        raise UsageError(
            f"None of {len(rows)} unlabelled examples is left: dev or test "
            "contains all of them."
        )
    return rows, kept


def kept_apart(task: Task, settings: TaskData) -> list[str]:
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


def _read_all(task, settings, splits):
    """The examples of some splits."""
    return [task.load(split, settings.data_dir) for split in splits]
