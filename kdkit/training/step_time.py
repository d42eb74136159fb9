"""How long the updates of a run take, by one of each stage."""

import math
import time

import keras

from kdkit import models
from kdkit.data import in_parts
from kdkit.doctor import NOTE
from kdkit.doctor import Finding
from kdkit.quantities import duration
from kdkit.reporting.formatting import words
from kdkit.training.evaluation import Evaluator
from kdkit.training.examined_rows import ExaminedRows
from kdkit.training.examined_rows import rows_of_epoch
from kdkit.training.material import TaskMaterial
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.run_settings import TeacherSettings
from kdkit.training.stage_runner import Arm
from kdkit.training.stages import Stage
from kdkit.training.task_data import TrainingRows
from kdkit.training.trainers import make_trainer

BATCHES = 9  # of which the one of middle length is timed
STEPS = 2


def time_needed(subject, rows: ExaminedRows, train) -> Finding:
    """Trains a throwaway student for a few updates, and reckons up.

    Args:
        subject: `Subject` with models that fit each other.
        rows: `ExaminedRows`.
        train: `kdkit.data.EncodedExamples` of some rows to train on.

    Raises:
        UsageError: as `rows_of_epoch` does.
    """
    settings = subject.settings
    total, parts = 0.0, []
    for arm, stages in settings.arms.items():
        for stage in stages:
            if stage.data != "task":
                continue
            seconds, first = _seconds_per_update(subject, stage, train)
            count = rows_of_epoch(
                settings, subject.task, len(rows.train), bool(stage.objectives)
            )
            updates = stage.epochs * math.ceil(count / stage.batch_size)
            total += first + updates * seconds
            name = stage.name if arm == "student" else f"{arm}, {stage.name}"
            parts.append(
                f"{words(name)} {updates} × {_short(seconds)} after a "
                f"first one of {duration(first)}"
            )
    others = ["evaluation"]
    if settings.jit_compile is True:
        lengths = settings.data.num_buckets or 1
        others.append(f"{lengths} compilations a stage")
    others += _other_runs(settings)
    found = (
        f"About {duration(total)} for the updates, by {STEPS} of each stage on "
        f"one device: {'; '.join(parts)}. In addition: {', '.join(others)}."
    )
    advice = ""
    if settings.cache is None and isinstance(settings.teacher, str):
        epochs = sum(stage.epochs for stage in subject.fitting)
        if epochs > 1:
            advice = (
                f"Teachers run in each of {epochs} epochs; with --cache DIR "
                "once."
            )
    return Finding("time", NOTE, found, advice)


def _short(seconds):
    """Less than a second in milliseconds."""
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else duration(seconds)


def _other_runs(settings):
    """What else is trained before or in the run, in words."""
    found = []
    if isinstance(settings.pretrained, PretrainSettings):
        found.append("pretraining the encoder")
    if isinstance(settings.teacher, TeacherSettings):
        found.append("training the teacher")
    if settings.general is not None:
        found.append("general distillation")
    if any(stage.data == "corpus" for stage in settings.stages):
        found.append("stages on the corpus")
    return found


def _seconds_per_update(subject, stage: Stage, train):
    """Those of an update in the middle of training, and of the first."""
    settings = subject.settings
    evaluator = Evaluator(subject.task, train, settings.data.dev_split)
    material = TaskMaterial(
        TrainingRows(train), evaluator, settings.data.num_buckets
    )
    arm = Arm(
        name="student",
        model=models.in_policy(subject.student, settings.dtype_policy),
        teacher=[teacher.model for teacher in subject.teachers],
        material=material,
        seed=settings.seed,
        jit_compile=settings.jit_compile,
        teacher_weights=settings.teacher_weights or None,
    )
    keras.utils.set_random_seed(settings.seed)
    batches, _ = material.training_batches(stage, settings.seed, 0)
    num_parts = stage.gradient_accumulation_steps
    if num_parts > 1:
        batches = in_parts(batches, num_parts)
    some = list(batches.take(BATCHES * num_parts))
    some.sort(key=lambda batch: batch[0]["token_ids"].shape[1])
    batch = some[len(some) // 2]
    trainer = make_trainer(arm, stage, material, num_updates=BATCHES)
    seconds = []
    for _ in range(1 + STEPS):
        started = time.monotonic()
        for _ in range(num_parts):
            trainer.train_on_batch(*batch)
        seconds.append(time.monotonic() - started)
    return sum(seconds[1:]) / STEPS, seconds[0]
