"""Whether models, rows and objectives of a distillation fit each other."""

from kdkit.distiller import Distiller
from kdkit.errors import all_mistakes
from kdkit.models import LoadedModel
from kdkit.training.making import DATA_LENGTH
from kdkit.training.making import check_length
from kdkit.training.run_settings import DistillSettings


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
        for stage in settings.stages:
            if stage.objectives and stage.data == "task":
                with check():
                    Distiller(
                        [teacher.model for teacher in teachers],
                        student,
                        stage.build_objectives(),
                        stage.label_weight,
                        settings.teacher_weights or None,
                        chunk_size=stage.chunk_size,
                    )
