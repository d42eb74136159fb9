"""Loads a distillation's examples, and validates its stages on the task."""

import dataclasses
from collections.abc import Iterable

from kdkit.data import EncodedExamples, unlabeled_rows
from kdkit.distillation.distiller import Distiller
from kdkit.errors import UsageError, all_mistakes
from kdkit.models import LoadedModel
from kdkit.quantization import require_quantizable
from kdkit.recipes.stages import Stage
from kdkit.runs.directory import RunDirectory
from kdkit.runs.events import Augmented, Unlabeled
from kdkit.runs.settings import DistillSettings
from kdkit.tasks import Task
from kdkit.training.making import DATA_LENGTH, require_length
from kdkit.training.optimizers import make_label_loss
from kdkit.training.sources import TaskSource
from kdkit.training.task_data import (
    Evaluator,
    TrainingRows,
    load_data,
    load_unlabeled,
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

    def source(self, evaluator: Evaluator) -> TaskSource:
        """Returns the source that the stages train on."""
        return TaskSource(
            self.train,
            evaluator,
            self.settings.data.num_buckets,
            self.unlabeled,
            self._per_labeled,
        )

    def control_source(self, evaluator: Evaluator) -> TaskSource:
        """Returns a source of labelled examples alone, as many per epoch."""
        source = self.source(evaluator)
        if self.unlabeled is None:
            return source
        num_rows = self.train.num_rows + unlabeled_rows(
            self.train.num_rows, len(self.unlabeled), self._per_labeled
        )
        return dataclasses.replace(source, unlabeled=None, num_rows=num_rows)

    def log(self, run: RunDirectory) -> None:
        """Logs the counts of augmented and unlabelled examples, once."""
        if self.unlabeled is not None and not run.events(Unlabeled):
            run.log(Unlabeled(**self.counts))
        if self.train.augmented is not None and not run.events(Augmented):
            run.log(Augmented(**self.train.counts()))


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


def require_fit(
    settings: DistillSettings, student, teachers: list[LoadedModel]
) -> None:
    """Validates that all stages on the task fit student and teachers."""
    with all_mistakes() as check:
        for model in (student, *(teacher.model for teacher in teachers)):
            with check():
                require_length(
                    settings.data.sequence_length, model, DATA_LENGTH
                )
        if any(stage.quantize is not None for stage in settings.stages):
            with check():
                require_quantizable(student)
        for stage in stages_with_teachers(settings):
            with check():
                require_fitting_stage(settings, stage, student, teachers)


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
    """Validates that a stage on the task fits the student and its teachers."""
    Distiller(
        [teacher.model for teacher in teachers],
        student,
        stage.weighted_objectives(),
        stage.label_weight,
        settings.teacher_weights or None,
        chunk_size=stage.chunk_size,
    )


def require_smoothable_labels(stages: Iterable[Stage], task: Task) -> None:
    """Requires that the labels can be smoothed, if a stage smooths them."""
    with all_mistakes() as check:
        for stage in stages:
            if stage.label_smoothing and stage.data == "task":
                with check():
                    make_label_loss(stage, task.kind.label_loss())
                    if task.head.candidates is not None:
                        raise UsageError(
                            f"Stage {stage.name!r}: label smoothing is for "
                            "tasks where a label may be any class. Received: "
                            f"label_smoothing={stage.label_smoothing}, and "
                            f"{task.name!r}, where each token has few "
                            "possible labels. Use label_smoothing=0."
                        )
