"""The teachers of a run that makes them itself, from an encoder."""

import dataclasses

from kdkit import models
from kdkit.cli.options import absolute
from kdkit.cli.options import given_flags
from kdkit.errors import UsageError
from kdkit.recipes import fine_tuning
from kdkit.recipes import pretraining
from kdkit.training.model_settings import ModelSettings
from kdkit.training.run_settings import PRETRAINED
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.run_settings import TeacherSettings
from kdkit.training.saving import FREE


def check_one_source(options) -> None:
    """Refuses what --encoder decides, beside it.

    Raises:
        UsageError: with the flags that clash.
    """
    given = given_flags(
        options,
        ("teacher", "teacher_weights", "pretrained", "cache", "teacher_file"),
    )
    if options.encoder is not None and given:
        raise UsageError(
            "--encoder makes the teachers in this run, and "
            f"{', '.join(given)} is of teachers that are there. Leave one of "
            "them out."
        )


def teachers_of_encoder(options, data, stages, corpus):
    """What is trained before a recipe, where only an encoder is there.

    Args:
        options: the parsed options of `kdkit distill`, with `encoder`.
        data: `DataSettings` of the task.
        stages: tuple of `Stage` that will be run.
        corpus: `CorpusSettings` or `None`.

    Returns:
        Tuple of `TeacherSettings`, and what the run's pretrained encoder is: a
        `PretrainSettings` where stages on the corpus learn from a head that
        the encoder has not, else its place.
    """
    encoder = absolute(options.encoder)
    learned_from = any(
        stage.objectives for stage in stages if stage.data == "corpus"
    )
    pretrained = encoder
    if learned_from and not models.has_language_model(encoder):
        pretrained = PretrainSettings(
            corpus=corpus,
            model=ModelSettings(checkpoint=encoder),
            stages=pretraining.STAGES,
        )
    teacher = TeacherSettings(
        data=data,
        model=ModelSettings(
            checkpoint=encoder if pretrained is encoder else PRETRAINED
        ),
        stages=fine_tuning.STAGES,
    )
    return teacher, pretrained


def with_same_settings(settings):
    """Gives the teachers that a run makes its own data, text and so on.

    Args:
        settings: `DistillSettings` with those of its teachers.
    """
    same = {
        "jit_compile": settings.jit_compile,
        "dtype_policy": settings.dtype_policy,
        "strategy": settings.strategy,
        **{name: getattr(settings, name) for name in FREE},
    }
    changes = {
        "teacher": dataclasses.replace(
            settings.teacher, data=settings.data, **same
        )
    }
    if isinstance(settings.pretrained, PretrainSettings):
        changes["pretrained"] = dataclasses.replace(
            settings.pretrained, corpus=settings.corpus, **same
        )
    return dataclasses.replace(settings, **changes)
