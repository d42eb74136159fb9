"""The memory and the disk that a distillation will take, from its sizes."""

import math
import pathlib

from kdkit import models
from kdkit.doctor import Finding
from kdkit.doctor import Findings
from kdkit.doctor import activations
from kdkit.doctor import disk
from kdkit.doctor import memory
from kdkit.doctor import numbers_of
from kdkit.doctor import room_to_train
from kdkit.doctor import run_size
from kdkit.doctor import tapped_entries
from kdkit.errors import UsageError
from kdkit.teacher_cache import packed_size
from kdkit.training.examined_rows import ExaminedRows
from kdkit.training.examined_rows import rows_of_epoch
from kdkit.training.model_settings import ModelSettings
from kdkit.training.run_settings import TeacherSettings
from kdkit.training.stages import Stage
from kdkit.training.transfer_settings import CacheSettings


def examine_room(sizes: ModelSettings) -> Finding | None:
    """Tells of a student that is too large, before it is built.

    Args:
        sizes: `ModelSettings`.

    Returns:
        A `Finding`, or `None` for a student that is not, that is loaded, or
        that cannot be built for another reason.
    """
    if not sizes.has_random_weights and sizes.bilstm is None:
        return None
    try:
        config = models.student_config(sizes.config(), vocabulary_size=1)
    except UsageError:
        return None
    return room_to_train(models.least_parameters(config))


def examine_needs(
    subject, rows: ExaminedRows, train, findings: Findings
) -> None:
    """Estimates the memory of a step and what the run writes.

    Args:
        subject: `Subject` with models.
        rows: `ExaminedRows`.
        train: `kdkit.data.EncodedExamples` of some rows to train on.
        findings: `Findings` that are added to.

    Raises:
        UsageError: as `rows_of_epoch` does, where there is a cache.
    """
    with findings.attempt("memory"):
        findings.add(_memory(subject, rows, train))
    settings, student = subject.settings, subject.student
    sizes = {
        f"{arm} with checkpoints": size_with_checkpoints(
            _trained(student), student.count_params(), stages, settings
        )
        for arm, stages in settings.arms.items()
        if stages
    }
    if isinstance(settings.teacher, TeacherSettings):
        teacher = subject.teachers[0].model
        sizes["teacher with checkpoints"] = size_with_checkpoints(
            _trained(teacher),
            teacher.count_params(),
            settings.teacher.stages,
            settings.teacher,
        )
    findings.add(disk(sizes, subject.run_dir))
    if settings.cache is not None and subject.fitting:
        needed = _cache_size(subject, rows, train)
        findings.add(disk_of_cache(needed, settings.cache))


def disk_of_cache(
    needed: int, cache: CacheSettings, advice: str = ""
) -> Finding:
    """Compares what a cache will take more with what is free.

    Args:
        needed: int. Bytes of all that will be kept.
        cache: `CacheSettings`.
        advice: string. What else takes less. Defaults to `""`.
    """
    place = pathlib.Path(cache.directory)
    there = sum(
        file.stat().st_size for file in place.rglob("*") if file.is_file()
    )
    return disk(
        {"outputs of the teacher": max(needed - there, 0)},
        place,
        f"--cache-precision bf16 takes half as much, int8 a quarter.{advice}",
        "disk of the cache",
    )


def size_with_checkpoints(
    trained: int, weights: int, stages: tuple[Stage, ...], settings
) -> int:
    """Returns the bytes that the training of one model writes at most.

    Args:
        trained: int. Weights that are trained.
        weights: int. All weights of the model.
        stages: tuple of `Stage`, at least one.
        settings: the settings of its run.
    """
    return run_size(
        trained,
        weights,
        [stage.epochs for stage in stages],
        max(len(stage.averaged_epochs) for stage in stages),
        settings.keep_checkpoints,
    )


def _trained(model):
    """How many numbers of a model are trained."""
    return sum(math.prod(weight.shape) for weight in model.trainable_weights)


def _memory(subject, rows, train):
    """The largest step: the stage whose batches take most."""
    largest, words = 0, ""
    length = int(train.lengths.max())
    if subject.settings.data.num_buckets is None:
        length = train.sequence_length
    for stage in subject.settings.stages + subject.settings.control:
        if stage.data != "task":
            continue
        num_rows = _rows_of_update(subject, rows, stage)
        sequences = train.sequences_per_row * max(
            num_rows // stage.gradient_accumulation_steps, 1
        )
        numbers = sequences * (
            activations(subject.shapes[1], length)
            + _tapped(subject, stage, length)
        )
        if numbers >= largest:
            largest = numbers
            words = f"{sequences} × {length} tokens"
    teachers = sum(one.model.count_params() for one in subject.teachers)
    student = subject.student
    return memory(
        teachers, student.count_params(), _trained(student), largest, words
    )


def _rows_of_update(subject, rows, stage):
    """Those of a batch, no more than an epoch has."""
    size = stage.batch_size
    if size > len(rows.train):  # others are counted where they matter
        size = min(
            size,
            rows_of_epoch(
                subject.settings, subject.task, len(rows.train), learns=True
            ),
        )
    return size


def _tapped(subject, stage, length):
    """Numbers that a stage reads of all models for one sequence."""
    if stage not in subject.fitting:
        return 0
    entries = tapped_entries(stage.build_objectives(), *subject.shapes)
    per_token = subject.task.kind.has_label_per_token
    of_teacher, of_student = (
        sum(numbers_of(entry, shape, length, per_token) for entry in some)
        for some, shape in zip(entries, subject.shapes, strict=True)
    )
    return len(subject.teachers) * of_teacher + of_student


def _cache_size(subject, rows, train):
    """Bytes of what is kept of the rows of an epoch, and of dev."""
    settings = subject.settings
    entries = set()
    for stage in subject.fitting:
        entries |= tapped_entries(stage.build_objectives(), *subject.shapes)[0]
    per_token = subject.task.kind.has_label_per_token

    def size(entry, length):
        numbers = numbers_of(entry, subject.shapes[0], length, per_token)
        width = entry.width(numbers)
        shape = numbers // width, width
        return packed_size(
            shape, settings.cache.precision, entry.num_exact(shape)
        )

    of_some = sum(
        size(entry, int(length))
        for length in train.lengths
        for entry in entries
    )
    count = rows.num_dev + rows_of_epoch(
        settings, subject.task, len(rows.train), learns=True
    )
    return int(of_some / len(train) * count * len(subject.teachers))
