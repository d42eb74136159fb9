"""The examples of a task as a source: labelled, augmented and unlabelled."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterable

import numpy as np

from kdkit import tasks
from kdkit.config.data import TaskData, Unlabeled
from kdkit.config.runs import TaskConfig
from kdkit.data import EncodedExamples, Examples
from kdkit.data.augmented import rows_with_copies, store_augmented
from kdkit.data.unlabeled import (
    mix_unlabeled,
    read_unlabeled,
    repeated_rows,
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
    evaluator: Evaluator,
    num_buckets: int | None,
    examples: EncodedExamples,
    rows_of_epoch: Callable[[int, int], np.ndarray] | None = None,
    **fields,
) -> Source:
    """Returns the examples of a task as a source."""
    task = evaluator.task
    return Source(
        examples,
        evaluator.encoded,
        **bucket_orders(num_buckets, rows_of_epoch),
        evaluate=evaluator,
        metric=task.primary_metric,
        larger_is_better=True,
        label_loss=task.kind.label_loss(),
        training_metrics=task.kind.training_metrics,
        known_outputs=functools.partial(dev_logits, evaluator),
        **fields,
    )


def mixed_source(
    make: Callable[..., Source],
    labeled: EncodedExamples,
    unlabeled: EncodedExamples,
    per_labeled: float,
    rows_of_epoch: Callable[[int, int], np.ndarray] | None = None,
    **fields,
) -> Source:
    """Returns labelled and unlabelled examples of a task as a source.

    `make(examples, rows_of_epoch, **fields)` is `task_source` of the task.
    """
    examples, rows = mix_unlabeled(
        labeled, unlabeled, per_labeled, rows_of_epoch
    )
    repeated = repeated_rows(len(labeled), len(rows(0, 0)), rows_of_epoch)
    return make(
        examples,
        rows,
        without_teacher=functools.partial(make, labeled, rows_of_epoch),
        control=make(labeled, repeated),
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


def require_smoothable_labels(stages: tuple[Stage, ...], task: Task) -> None:
    """Requires that smoothed labels give nothing to impossible classes."""
    if task.head.candidates is not None and any(
        stage.label_smoothing and stage.data == "task" for stage in stages
    ):
        raise UsageError(
            f"{task.name!r} has few possible labels for each token. Expected "
            "stages with label_smoothing=0."
        )


def load_splits(task: Task, settings: TaskData, splits: Iterable[str]) -> list:
    """Returns the examples of some splits."""
    return [task.load(split, settings.data_dir) for split in splits]


def make_evaluators(
    task: Task, settings: TaskData, tokenizer, teachers: tuple
) -> list[Evaluator]:
    """Returns an evaluator for each dev split, the chosen one first."""
    found = []
    for split in dict.fromkeys((settings.dev_split, *task.other_dev_splits)):
        examples = task.load(split, settings.data_dir)
        encoded = task.encode(examples, tokenizer, settings.sequence_length)
        found.append(Evaluator(task, encoded, split, teachers))
    return found


def load_task(
    config: TaskConfig, evaluator: Evaluator, train, tokenizer, folder
) -> Source:
    """Encodes the examples to train on, and logs their numbers.

    Args:
        config: `TaskConfig`.
        evaluator: `Evaluator` on the dev split that chooses an epoch.
        train: the examples to train on.
        tokenizer: the tokenizer of all models.
        folder: path of the run directory.
    """
    task, settings, dev = evaluator.task, config.data, evaluator.encoded
    length, seed = settings.sequence_length, config.training.seed
    drawn = drawn_rows(len(train), settings.max_train_rows, seed)
    rows, counts, copies = None, None, ""
    if config.augmented is None:
        labeled = task.encode(train.take(drawn), tokenizer, length)
    else:
        labeled, sources, left_out = store_augmented(
            train,
            config.augmented.file,
            tokenizer,
            length,
            folder / "augmented",
            drawn,
            load_splits(task, settings, kept_apart(task, settings)),
        )
        per_epoch, num_rows = config.augmented.copies_per_epoch, len(labeled)
        if per_epoch is not None:
            rows = rows_with_copies(sources, len(drawn), per_epoch)
            num_rows = len(rows(0, 0))
        counts = {
            "rows": len(drawn),
            "copies": len(sources),
            "left_out": left_out,
            "rows_of_epoch": num_rows,
        }
        copies = (
            f" ({len(sources)} of them augmented; {left_out} more left out "
            f"because dev or test contains them; {num_rows} in an epoch)"
        )
    if task.table is not None:
        for split in ("train", settings.dev_split):
            _log.info(task.table.description(split))
    _log.info(
        f"{task.name}: {len(labeled)} examples to train on{copies}, "
        f"{len(dev)} in {settings.dev_split}; {labeled.num_truncated} and "
        f"{dev.num_truncated} truncated to {length} tokens."
    )
    make = functools.partial(
        task_source, evaluator, settings.num_buckets, augmented=counts
    )
    if config.unlabeled is None:
        return make(labeled, rows)
    kept, counts = read_kept_unlabeled(task, settings, config.unlabeled)
    return mixed_source(
        make,
        labeled,
        task.encode(kept, tokenizer, length),
        config.unlabeled.per_labeled,
        rows,
        counts=counts,
    )


def drawn_rows(count: int, most: int | None, seed: int) -> np.ndarray:
    """Returns the numbers of the examples to train on."""
    order = np.arange(count)
    if most and most < count:
        order = np.random.default_rng(seed).permutation(count)
    return np.sort(order[:most])


def read_kept_unlabeled(
    task: Task, settings: TaskData, unlabeled: Unlabeled
) -> tuple[Examples, dict]:
    """Reads the unlabelled examples that are not in dev or test, and counts."""
    rows = read_unlabeled(unlabeled.files, unlabeled.columns, task.num_texts)
    splits = kept_apart(task, settings)
    kept = without_texts_of(rows, load_splits(task, settings, splits))
    if not len(kept):
        raise UsageError(
            f"None of {len(rows)} unlabelled examples is left: dev or test "
            "contains all of them."
        )
    dropped = len(rows) - len(kept)
    _log.info(
        f"{len(kept)} unlabelled examples; {dropped} left out because "
        f"{', '.join(splits)} contain them."
    )
    return kept, {
        "rows": len(rows),
        "dropped": dropped,
        "compared_with": splits,
        "per_labeled": unlabeled.per_labeled,
    }


def kept_apart(task: Task, settings: TaskData) -> list[str]:
    """Returns the splits for evaluation whose files exist."""
    found = []
    for split in task.splits:
        with contextlib.suppress(OSError, UsageError):
            task.check_data([split], settings.data_dir)
            found.append(split)
    return [split for split in found if split != "train"]
