"""The log entries and the final report that all kinds of runs share."""

import contextlib
import dataclasses
import logging
import pathlib

from kdkit.doctor import ruinous
from kdkit.errors import UsageError
from kdkit.models.architectures import architecture
from kdkit.recipes import RECIPES
from kdkit.reporting.records import read_run
from kdkit.reporting.words import verdict
from kdkit.runs.directory import CHECKPOINTS, Run
from kdkit.runs.events import (
    Augmented,
    Best,
    Doctor,
    Epoch,
    Evaluation,
    Model,
    RunFinished,
    Unlabeled,
)
from kdkit.training.source import Source, measured
from kdkit.training.tasks import Evaluator

_log = logging.getLogger(__name__)


class ArmLog:
    """The log of an arm's training, and the folders of its files."""

    def __init__(self, run: Run, arm: str):
        self._run, self._arm = run, arm
        self.checkpoints = run.path / CHECKPOINTS / arm
        self.tensorboard = run.path / "tensorboard" / arm

    def epoch(self, stage: str, epoch: int, evaluation: dict, **fields) -> None:
        """Logs a finished epoch and its evaluation."""
        where = {"arm": self._arm, "stage": stage, "epoch": epoch}
        self._run.log(Epoch(**where, **fields))
        self._run.log(Evaluation(**where, **evaluation))

    def best(self, stage: str, epoch: int, untrained_layers: tuple) -> Best:
        """Returns the final weights: their epoch and its evaluation."""
        # The first evaluation: other dev splits are measured after it.
        where = {"arm": self._arm, "stage": stage, "epoch": epoch}
        evaluation, *_ = self._run.events(Evaluation, **where)
        return Best(
            stage=stage,
            epoch=epoch,
            split=evaluation.split,
            metrics=evaluation.metrics,
            agreement=evaluation.agreement,
            collapsed=evaluation.collapsed,
            untrained_layers=untrained_layers,
        )

    def untrained(self, evaluation: dict) -> Best:
        """Logs and returns the measurement of a model that no stage trains."""
        self._run.log(Evaluation(arm=self._arm, **evaluation))
        return Best(split=evaluation["split"], metrics=evaluation["metrics"])


def log_start(config) -> None:
    """Logs that a student starts from its fine-tuned teacher, and why."""
    plan = getattr(RECIPES.get(config.recipe), "student", None)
    is_copied = getattr(config.student, "copy_from", None) == "teacher"
    is_given = config.kind == "task" and not config.steps
    if is_given and is_copied and getattr(plan, "source", "") == "pretrained":
        _log.info(
            "The checkpoint that the teacher was fine-tuned from is not "
            "recorded. The student starts from the layers and the head of the "
            "fine-tuned teacher. Pass --pretrained MODEL to start from a "
            "pretrained encoder."
        )


def log_model(run: Run, arm: str, model, student=None) -> None:
    """Logs the architecture of an arm's model, as its config describes it."""
    description = architecture(model)
    place = getattr(student, "checkpoint", None)
    if place is not None:
        description["name"] = pathlib.Path(place).name
    run.log(Model(arm=arm, **description))


def log_rows(run: Run, source: Source) -> None:
    """Logs the counts of unlabelled and augmented examples."""
    if source.counts is not None:
        run.log(Unlabeled(**source.counts))
    if source.augmented is not None:
        run.log(Augmented(**source.augmented))


def finish(run: Run, best: dict[str, Best]) -> None:
    """Logs the end of a run, and prints its models and their metrics."""
    run.log(RunFinished(seconds=run.seconds, best=best))
    for arm, result in best.items():
        place = f"epoch {result.epoch} of {result.stage}"
        if result.stage is None:
            place = "not trained"
        _log.info(
            f"{arm}: {format_metrics(result.metrics)} on "
            f"{result.split.replace('_', '-')} ({place}), in {run.path / arm}",
        )
    # The log of the teacher's run may be damaged. Reports show that.
    with contextlib.suppress(UsageError):
        if not run.is_read_only:
            _log.info(verdict(read_run(run.path)))


def format_metrics(metrics) -> str:
    """Returns metrics as one line of text."""
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())


def log_evaluation(run: Run, arm: str, called: str, **fields) -> None:
    """Logs an evaluation of an arm, and prints its metrics."""
    run.log(Evaluation(arm=arm, **fields))
    metrics = format_metrics(fields["metrics"])
    _log.info(f"{called}: {metrics} on {fields['split']}.")


def log_before_training(run: Run, arm: str, called: str, measure) -> None:
    """Measures a model before training, once."""
    if not run.events(Evaluation, arm=arm, stage=None):
        log_evaluation(run, arm, called, **measure())


def log_findings(run: Run, findings: list) -> None:
    """Logs the doctor's findings, if it ran now."""
    if findings:
        rows = tuple(map(dataclasses.asdict, findings))
        run.log(Doctor(findings=rows, forced=bool(ruinous(findings))))


def named_teachers(teachers: list) -> list[tuple]:
    """Returns teachers with their names in the log."""
    return [
        ("teacher" if number == 1 else f"teacher_{number}", teacher)
        for number, teacher in enumerate(teachers, start=1)
    ]


def log_teachers(run: Run, teachers: list, evaluator: Evaluator) -> None:
    """Logs the teachers' metrics on a split, and their architectures."""
    task, rows = evaluator.task, evaluator.encoded
    for (arm, teacher), logits in zip(
        named_teachers(teachers), evaluator.teachers_logits, strict=True
    ):
        metrics = task.compute_metrics(rows.targets, logits)
        log_evaluation(
            run,
            arm,
            arm.replace("_", " "),
            **measured(evaluator.split, rows, metrics),
            collapsed=task.kind.collapse(rows.targets, logits),
        )
        log_model(run, arm, teacher.model)


def log_other(run: Run, arm, best: Best, evaluator: Evaluator) -> None:
    """Measures an arm's final weights on another dev split, once."""
    known = run.events(Evaluation, arm=arm.name, split=evaluator.split)
    if not (run.is_read_only or known):
        where = {"stage": best.stage, "epoch": best.epoch}
        found = evaluator(arm.forward)
        log_evaluation(run, arm.name, arm.name, **where, **found)
