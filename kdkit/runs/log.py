"""The log entries and the final report that all kinds of runs share."""

import contextlib
import dataclasses
import io
import logging
import pathlib

from rich.console import Console

from kdkit.doctor import RUINS, Finding, Findings
from kdkit.doctor.findings import findings_and_verdict
from kdkit.errors import RunError, UsageError
from kdkit.models.architectures import architecture
from kdkit.reporting.records import read_run
from kdkit.reporting.summary import verdict
from kdkit.runs.directory import CHECKPOINTS, RunDirectory
from kdkit.runs.events import (
    Best,
    Doctor,
    Epoch,
    Evaluation,
    Model,
    RunFinished,
    StageFinished,
    TeacherCache,
)
from kdkit.settings import from_dict
from kdkit.training.caching import TeacherCaches
from kdkit.training.source import predict_logits
from kdkit.training.tasks import Evaluator

_log = logging.getLogger(__name__)


class ArmLog:
    """The log of an arm's training, and the folders of its files."""

    def __init__(self, run: RunDirectory, arm: str):
        self._run, self._arm = run, arm
        self.checkpoints = run.path / CHECKPOINTS / arm
        self.tensorboard = run.path / "tensorboard" / arm

    def epoch(self, stage: str, epoch: int, evaluation: dict, **fields) -> None:
        """Logs a finished epoch and its evaluation."""
        where = {"arm": self._arm, "stage": stage, "epoch": epoch}
        self._run.log(Epoch(**where, **fields))
        self._run.log(Evaluation(**where, **evaluation))

    def finish_stage(self, stage: str) -> None:
        """Logs a stage's end and its seconds."""
        where = {"arm": self._arm, "stage": stage}
        epochs = self._events(Epoch, **where)
        seconds = sum(event.seconds for event in epochs)
        self._run.log(StageFinished(**where, seconds=seconds))

    def best(self, stage: str, epoch: int, untrained_layers: tuple) -> Best:
        """Returns the final weights: their epoch and its evaluation."""
        # The first evaluation: other dev splits are measured after it.
        where = {"arm": self._arm, "stage": stage, "epoch": epoch}
        evaluation, *_ = self._events(Evaluation, **where)
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

    def _events(self, kind, **fields):
        """The events of a kind with the given values."""
        return [
            event
            for event in self._run.events(kind)
            if all(getattr(event, name) == one for name, one in fields.items())
        ]


def log_caches(run: RunDirectory, caches: TeacherCaches | None) -> None:
    """Logs the precision and errors of the outputs that were read, once."""
    if caches is not None and not run.events(TeacherCache):
        errors = tuple(caches.relative_errors())
        run.log(
            TeacherCache(precision=caches.precision, relative_errors=errors)
        )


def reports_finished(run: RunDirectory, needs_models: bool = True) -> bool:
    """Returns whether a run is finished, and prints that or its lost models."""
    if run.is_finished or (not needs_models and run.has_ended):
        _log.info(f"The run in {run.path} is finished: nothing to do.")
        return True
    if run.lost_arms:
        _log.warning(
            f"The run in {run.path} was finished, but its model "
            f"{' and '.join(run.lost_arms)} is missing: making it again.",
        )
    return False


def log_model(run: RunDirectory, arm, model, settings=None) -> None:
    """Logs the architecture of an arm's model."""
    description = architecture(model)
    if settings is not None and settings.checkpoint is not None:
        description["name"] = pathlib.Path(settings.checkpoint).name
    run.log(Model(arm=arm, **description))


def finish(run: RunDirectory, best: dict[str, Best]) -> None:
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


def decide(findings: Findings, force: bool, printed=()) -> None:
    """Logs the findings before a run, and stops the run if one is an error."""
    # Errors are always printed.
    printed = [one for one in printed if force or one.outcome != RUINS]
    table = findings_and_verdict(findings, False, printed)
    lines = io.StringIO()
    Console(file=lines, highlight=False).print(table)
    message = lines.getvalue().removesuffix("\n")
    # Errors are also shown where messages are not.
    level = logging.ERROR if findings.ruinous else logging.INFO
    _log.log(level, message, extra={"renderable": table})
    if not findings.ruinous:
        return
    named = ", ".join(dict.fromkeys(one.check for one in findings.ruinous))
    if not force:
        raise RunError(
            f"The run would be ruined: {named}, see above. Nothing was "
            "trained. Fix it, or continue with --force."
        )
    _log.warning(f"doctor: continuing in spite of {named}, by --force.")


def logged_findings(run: RunDirectory) -> Findings | None:
    """Returns the findings in a run's log, or `None` if it has none."""
    for event in run.events(Doctor):
        return Findings(from_dict(Finding, one) for one in event.findings)
    return None


def log_findings(run, findings: Findings | None) -> None:
    """Logs a `Doctor` event with all findings, unless `findings` is `None`."""
    if findings is not None and not run.events(Doctor):
        rows = tuple(dataclasses.asdict(one) for one in findings)
        run.log(Doctor(findings=rows, forced=bool(findings.ruinous)))


def evaluate_teachers(run, task, teachers, forwards, dev, split):
    """Evaluates the teachers once, and returns the students' evaluator."""
    all_logits = []
    for number, (teacher, forward) in enumerate(
        zip(teachers, forwards, strict=True), start=1
    ):
        arm = "teacher" if number == 1 else f"teacher_{number}"
        logits = predict_logits(forward, dev)
        metrics = task.compute_metrics(dev.targets, logits)
        run.log(
            Evaluation(
                arm=arm,
                split=split,
                examples=len(dev),
                metrics=metrics,
                collapsed=task.kind.collapse(dev.targets, logits),
            )
        )
        log_model(run, arm, teacher.model)
        _log.info(
            f"{arm.replace('_', ' ')}: {format_metrics(metrics)} on {split}.",
        )
        all_logits.append(logits)
    return Evaluator(task, dev, split, tuple(all_logits))


def evaluate_other(run, arm, best, evaluator):
    """Measures an arm's final weights on another dev split."""
    if run.is_read_only or _evaluated(run, arm.name, evaluator.split):
        return
    evaluation = evaluator(arm.forward)
    run.log(
        Evaluation(
            arm=arm.name, stage=best.stage, epoch=best.epoch, **evaluation
        )
    )
    _log.info(
        f"{arm.name}: {format_metrics(evaluation['metrics'])} on "
        f"{evaluator.split}.",
    )


def _evaluated(run, arm, split):
    return any(
        (event.arm, event.split) == (arm, split)
        for event in run.events(Evaluation)
    )
