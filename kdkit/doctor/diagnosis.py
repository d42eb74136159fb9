"""`kdkit doctor`: everything that can be checked without training."""

import math
import time

import keras

from kdkit import models
from kdkit.doctor.examination import examine, examine_words_of
from kdkit.doctor.examined_rows import ExaminedRows, epoch_rows
from kdkit.doctor.findings import NOTE, OK, Finding, Findings
from kdkit.doctor.resources import fitting
from kdkit.doctor.text_examination import TEXTS
from kdkit.io.machine import duration
from kdkit.recipes.stages import Stage
from kdkit.reporting.formatting import words
from kdkit.training.arm import Arm
from kdkit.training.tasks import Evaluator, TrainingRows, task_source
from kdkit.training.trainers import make_trainer

ROWS = 1000  # dev examples that teachers predict
# Checks (by the beginning of their names) without which no update can run.
STEPLESS = ("token table", "memory")


def diagnose(kind) -> Findings:
    """Runs all checks of a run whose models are made.

    Args:
        kind: the run's kind, from `kdkit.runs.build.build`.
    """
    findings = Findings()
    if kind.config.kind != "task":
        findings.add(Finding("models", OK, "Teacher and student fit."))
        examine_words_of(kind, findings)
        return findings
    rows, train = examine(kind, ROWS, TEXTS, findings)
    _time(kind, rows, train, findings)
    return findings


def _time(kind, rows, train, findings):
    """Measures updates, if the models can run one."""
    ruined = [
        one.check for one in findings.ruinous if one.check.startswith(STEPLESS)
    ]
    if ruined:
        findings.add(
            Finding("time", NOTE, f"Not measured: see {', '.join(ruined)}.")
        )
        return
    findings.add(time_needed(kind, rows, train))


BATCHES = 9  # the one with the median length is timed
STEPS = 2


def time_needed(kind, rows: ExaminedRows, train) -> Finding:
    """Trains a temporary student for a few updates and estimates the time."""
    config = kind.config
    total, parts = 0.0, []
    for arm, stages in kind.arms.items():
        for stage in stages:
            if stage.data != "task":
                continue
            seconds, first = _seconds_per_update(kind, stage, train)
            learns = bool(stage.objectives)
            count = epoch_rows(config, kind.task, len(rows.train), learns)
            updates = stage.epochs * math.ceil(count / stage.batch_size)
            total += first + updates * seconds
            name = stage.name if arm == "student" else f"{arm}, {stage.name}"
            parts.append(
                f"{words(name)} {updates} × {_short(seconds)} after a "
                f"first one of {duration(first)}"
            )
    others = ["evaluation"]
    if config.training.jit_compile is True:
        lengths = config.data.num_buckets or 1
        others.append(f"{lengths} compilations a stage")
    if config.corpus is not None:
        others.append("stages on the corpus")
    found = (
        f"About {duration(total)} for the updates, estimated from {STEPS} per "
        f"stage on one device: {'; '.join(parts)}. In addition: "
        f"{', '.join(others)}."
    )
    advice = ""
    if config.cache is None:
        epochs = sum(stage.epochs for stage in fitting(kind))
        if epochs > 1:
            advice = (
                f"Teachers run in each of {epochs} epochs; with --cache DIR "
                "once."
            )
    return Finding("time", NOTE, found, advice)


def _short(seconds):
    """Returns a duration; below a second in milliseconds."""
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else duration(seconds)


def _seconds_per_update(kind, stage: Stage, train):
    """Returns the seconds of a typical update, and of the first one."""
    config = kind.config
    evaluator = Evaluator(kind.task, train, config.data.dev_split)
    buckets = config.data.num_buckets
    source = task_source(TrainingRows(train), evaluator, buckets)
    arm = Arm(
        name="student",
        model=models.in_policy(kind.model, config.training.dtype_policy),
        teachers=kind.compared,
        source=source,
        stages=(stage,),
        training=config.training,
        teacher_weights=config.teacher_weights or None,
    )
    seed = config.training.seed
    keras.utils.set_random_seed(seed)
    num_parts = stage.gradient_accumulation_steps
    batches = source.training_stream(stage, seed).training()
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
