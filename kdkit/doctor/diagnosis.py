"""`kdkit doctor`: everything that can be checked without training."""

import dataclasses
import math
import pathlib
import time

import keras

from kdkit import models
from kdkit.doctor.examination import Subject, examine
from kdkit.doctor.examined_rows import ExaminedRows, epoch_rows
from kdkit.doctor.findings import NOTE, Finding, Findings
from kdkit.doctor.resources import examine_memory
from kdkit.doctor.text_examination import TEXTS
from kdkit.io.machine import duration
from kdkit.recipes.stages import Stage
from kdkit.reporting.formatting import words
from kdkit.runs.directory import is_finished
from kdkit.runs.examples import (
    require_fitting_stage,
    require_smoothable_labels,
    stages_with_teachers,
)
from kdkit.runs.pipeline import known_sizes
from kdkit.runs.settings import (
    PRETRAINED,
    DistillSettings,
    PretrainSettings,
    TeacherSettings,
)
from kdkit.runs.task_parts import (
    Student,
    load_corpus_teacher,
)
from kdkit.training.arm import Arm
from kdkit.training.making import (
    DATA_LENGTH,
    load_teachers,
    make_model,
    require_length,
)
from kdkit.training.source import make_forward
from kdkit.training.tasks import (
    Evaluator,
    TrainingRows,
    open_task,
    task_source,
)
from kdkit.training.trainers import make_trainer

ROWS = 1000  # dev examples that teachers predict
# Checks (by the beginning of their names) without which no update can run.
STEPLESS = ("token table", "memory")


def diagnose(settings: DistillSettings, run_dir) -> Findings:
    """Loads a run's parts and checks all of them."""
    findings = Findings()
    task = open_task(settings.data)
    require_smoothable_labels((*settings.stages, *settings.control), task)
    too_large = examine_memory(known_sizes(settings))
    if too_large is not None:  # it is not built
        findings.add(too_large)
        return findings
    run_dir = pathlib.Path(run_dir)
    teachers, places = _teachers(settings, task, run_dir)
    student, tokenizer = _student(settings, task, teachers[0])
    for model in (student, *(teacher.model for teacher in teachers)):
        require_length(settings.data.sequence_length, model, DATA_LENGTH)
    fitting = stages_with_teachers(settings)
    for stage in fitting:
        require_fitting_stage(settings, stage, student, teachers)
    _check_corpus_stages(settings, student, teachers[0])
    subject = Subject(
        settings,
        task,
        run_dir,
        teachers,
        places,
        [make_forward(teacher.model) for teacher in teachers],
        student,
        tokenizer,
        fitting,
    )
    rows, train = examine(subject, ROWS, TEXTS, findings)
    _time(subject, rows, train, findings)
    return findings


def _teachers(settings, task, run_dir):
    """Returns the teachers and their paths."""
    first = settings.teacher
    if isinstance(first, TeacherSettings):
        first = run_dir / "teacher_run"
        if not is_finished(first):
            return [_untrained(settings, task)], [first]
    places = [first, *settings.more_teachers]
    return load_teachers(places, task), places


def _untrained(settings, task):
    """Returns a model with the sizes of the teacher that the run trains."""
    model = settings.teacher.model
    if model.checkpoint == PRETRAINED:
        place = settings.pretrained
        if isinstance(place, PretrainSettings):
            model = place.model
        else:
            model = dataclasses.replace(model, checkpoint=place)
    return models.LoadedModel(*make_model(model, task), False)


def _student(settings, task, teacher):
    """Returns a model with the student's sizes, and its tokenizer."""
    sizes = known_sizes(settings)
    pretrained = settings.pretrained
    if isinstance(pretrained, PretrainSettings):
        pretrained = pretrained.model.checkpoint
    return make_model(sizes, task, teacher, pretrained)


def _time(subject, rows, train, findings):
    """Measures updates, if the models can run one."""
    ruined = [
        one.check for one in findings.ruinous if one.check.startswith(STEPLESS)
    ]
    if ruined:
        findings.add(
            Finding("time", NOTE, f"Not measured: see {', '.join(ruined)}.")
        )
        return
    findings.add(time_needed(subject, rows, train))


def _check_corpus_stages(settings, student, teacher):
    """Checks the corpus as a run does, except before pretraining."""
    if all(stage.data != "corpus" for stage in settings.stages):
        return
    if isinstance(settings.pretrained, PretrainSettings):
        return
    language_model = models.language_model(models.backbone_of(student))
    tokenizer = teacher.tokenizer
    load_corpus_teacher(
        settings,
        Student("student", student, tokenizer, language_model),
        tokenizer,
        settings.pretrained,
    )


BATCHES = 9  # the one with the median length is timed
STEPS = 2


def time_needed(subject, rows: ExaminedRows, train) -> Finding:
    """Trains a temporary student for a few updates and estimates the time."""
    settings = subject.settings
    total, parts = 0.0, []
    for arm, stages in settings.arms.items():
        for stage in stages:
            if stage.data != "task":
                continue
            seconds, first = _seconds_per_update(subject, stage, train)
            count = epoch_rows(
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
        f"About {duration(total)} for the updates, estimated from {STEPS} per "
        f"stage on one device: {'; '.join(parts)}. In addition: "
        f"{', '.join(others)}."
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
    """Returns a duration; below a second in milliseconds."""
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else duration(seconds)


def _other_runs(settings):
    """Returns what else is trained before or during the run, in words."""
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
    """Returns the seconds of a typical update, and of the first one."""
    settings = subject.settings
    evaluator = Evaluator(subject.task, train, settings.data.dev_split)
    source = task_source(
        TrainingRows(train), evaluator, settings.data.num_buckets
    )
    arm = Arm(
        name="student",
        model=models.in_policy(subject.student, settings.dtype_policy),
        teacher=[teacher.model for teacher in subject.teachers],
        source=source,
        seed=settings.seed,
        jit_compile=settings.jit_compile,
        teacher_weights=settings.teacher_weights or None,
    )
    keras.utils.set_random_seed(settings.seed)
    num_parts = stage.gradient_accumulation_steps
    batches = source.training_stream(stage, settings.seed).training()
    some = list(batches.take(BATCHES * num_parts))
    some.sort(key=lambda batch: batch[0]["token_ids"].shape[1])
    batch = some[len(some) // 2]
    trainer = make_trainer(arm, stage, source, num_updates=BATCHES)
    seconds = []
    for _ in range(1 + STEPS):
        started = time.monotonic()
        for _ in range(num_parts):
            trainer.train_on_batch(*batch)
        seconds.append(time.monotonic() - started)
    return sum(seconds[1:]) / STEPS, seconds[0]
