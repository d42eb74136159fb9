"""Whether models, rows, labels and objectives of runs fit each other."""

from collections.abc import Iterable

from kdkit.distiller import Distiller
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.models import LoadedModel
from kdkit.tasks import Task
from kdkit.training.making import DATA_LENGTH
from kdkit.training.making import check_length
from kdkit.training.run_settings import DistillSettings
from kdkit.training.stages import Stage


def check_fit(
    settings: DistillSettings, student, teachers: list[LoadedModel]
) -> None:
    """Builds what the stages on the task will build.

    Args:
        settings: `DistillSettings`.
        student: a model of the student's sizes.
        teachers: list of `kdkit.models.LoadedModel`.

    Raises:
        UsageError: with all that does not fit.
    """
    with all_mistakes() as check:
        for model in (student, *(teacher.model for teacher in teachers)):
            with check():
                check_length(settings.data.sequence_length, model, DATA_LENGTH)
        for stage in stages_with_teachers(settings):
            with check():
                check_stage(settings, stage, student, teachers)


def stages_with_teachers(settings: DistillSettings) -> tuple[Stage, ...]:
    """Returns the stages on the task that learn from teachers."""
    return tuple(
        stage
        for stage in settings.stages
        if stage.objectives and stage.data == "task"
    )


def check_stage(
    settings: DistillSettings,
    stage: Stage,
    student,
    teachers: list[LoadedModel],
) -> None:
    """Builds what a stage on the task will build.

    Args:
        settings: `DistillSettings`.
        stage: `Stage` with objectives.
        student: a model of the student's sizes.
        teachers: list of `kdkit.models.LoadedModel`.

    Raises:
        UsageError: with all that does not fit.
    """
    Distiller(
        [teacher.model for teacher in teachers],
        student,
        stage.build_objectives(),
        stage.label_weight,
        settings.teacher_weights or None,
        chunk_size=stage.chunk_size,
    )


def check_label_smoothing(stages: Iterable[Stage], task: Task) -> None:
    """Refuses to smooth labels of a task that cannot be smoothed.

    Args:
        stages: iterable of `Stage`.
        task: `kdkit.tasks.Task`.

    Raises:
        UsageError: with all stages that would.
    """
    with all_mistakes() as check:
        for stage in stages:
            if stage.label_smoothing and stage.data == "task":
                with check():
                    stage.make_label_loss(task.kind.label_loss())
                    if task.head.candidates is not None:
                        raise UsageError(
                            f"Stage {stage.name!r}: label smoothing is for "
                            "labels that may be any class. Received: "
                            f"label_smoothing={stage.label_smoothing}, and "
                            f"{task.name!r}, where a token has few of them. "
                            "Use label_smoothing=0."
                        )
