"""A distillation's examples, and which of its stages learn from a teacher."""

import dataclasses
from collections.abc import Iterable

from kdkit.data import EncodedExamples, unlabeled_rows
from kdkit.errors import UsageError
from kdkit.models import LoadedModel
from kdkit.recipes.stages import Stage
from kdkit.runs.build import require_fitting_objectives
from kdkit.runs.directory import RunDirectory
from kdkit.runs.events import Augmented, Unlabeled
from kdkit.runs.settings import DistillSettings
from kdkit.tasks import Task
from kdkit.training.source import Source
from kdkit.training.tasks import (
    Evaluator,
    TrainingRows,
    load_data,
    load_unlabeled,
    task_source,
)


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedRows:
    """The encoded examples of a run."""

    train: TrainingRows
    dev: EncodedExamples
    unlabeled: EncodedExamples | None
    counts: dict
    settings: DistillSettings

    @property
    def _per_labeled(self):
        unlabeled = self.settings.unlabeled
        return 1.0 if unlabeled is None else unlabeled.per_labeled

    def source(self, evaluator: Evaluator) -> Source:
        """Returns the source that the stages train on."""
        return task_source(
            self.train,
            evaluator,
            self.settings.data.num_buckets,
            self.unlabeled,
            self._per_labeled,
        )

    def control_source(self, evaluator: Evaluator) -> Source:
        """Returns a source of labelled examples alone, as many per epoch."""
        if self.unlabeled is None:
            return self.source(evaluator)
        num_rows = self.train.num_rows + unlabeled_rows(
            self.train.num_rows, len(self.unlabeled), self._per_labeled
        )
        buckets = self.settings.data.num_buckets
        return task_source(self.train, evaluator, buckets, num_rows=num_rows)

    def log(self, run: RunDirectory) -> None:
        """Logs the counts of augmented and unlabelled examples."""
        if self.unlabeled is not None:
            run.log(Unlabeled(**self.counts))
        if self.train.counts is not None:
            run.log(Augmented(**self.train.counts))


def load_rows(
    settings: DistillSettings, task: Task, tokenizer, directory
) -> LoadedRows:
    """Reads and encodes all examples of a run."""
    train, dev = load_data(
        task,
        settings.data,
        tokenizer,
        settings.seed,
        settings.augmented,
        directory,
    )
    unlabeled, counts = None, {}
    if settings.unlabeled is not None:
        unlabeled, counts = load_unlabeled(
            task, settings.data, settings.unlabeled, tokenizer
        )
    return LoadedRows(train, dev, unlabeled, counts, settings)


def stages_with_teachers(settings: DistillSettings) -> tuple[Stage, ...]:
    """Returns the stages on the task that have objectives."""
    return tuple(
        stage
        for stage in settings.stages
        if stage.objectives and stage.data == "task"
    )


def require_fitting_stage(
    settings: DistillSettings,
    stage: Stage,
    student,
    teachers: list[LoadedModel],
) -> None:
    """Requires that a stage on the task fits, before long steps."""
    require_fitting_objectives(
        [stage],
        [teacher.model for teacher in teachers],
        student,
        settings.teacher_weights or None,
    )


def require_smoothable_labels(stages: Iterable[Stage], task: Task) -> None:
    """Requires that smoothed labels give nothing to impossible classes."""
    smoothed = [
        stage.name
        for stage in stages
        if stage.label_smoothing and stage.data == "task"
    ]
    if smoothed and task.head.candidates is not None:
        raise UsageError(
            f"{task.name!r} has few possible labels for each token. Expected "
            f"label_smoothing=0 in {', '.join(smoothed)}."
        )
