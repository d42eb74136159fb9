"""What to do after a verb: commands with the paths of its results."""

import contextlib
import contextvars
import logging
import os
import pathlib
import shlex
from collections.abc import Iterator, Sequence

from kdkit import models
from kdkit.cli.choosing import DEPTHS, POSITIONS, saved_size
from kdkit.reporting.records import read_run
from kdkit.reporting.selection import exported_files
from kdkit.runs.directory import (
    CONFIG,
    RunDirectory,
    is_finished,
    read_settings,
)
from kdkit.runs.events import Epoch
from kdkit.runs.settings import DistillSettings
from kdkit.training.tasks import open_task

_log = logging.getLogger(__name__)

LEAST_DEPTH = 4  # half as many layers have a "skip" layer map


_is_on = contextvars.ContextVar("is_on", default=True)


@contextlib.contextmanager
def no_next_steps() -> Iterator[None]:
    """Logs no next steps in the block, which runs them itself."""
    token = _is_on.set(False)
    try:
        yield
    finally:
        _is_on.reset(token)


def log_next(steps: Sequence[tuple[list[str], str]]) -> None:
    """Logs commands to copy, each with a comment."""
    if not (steps and _is_on.get()):
        return
    commands = [shlex.join(["kdkit", *words]) for words, _ in steps]
    width = max(map(len, commands))
    lines = [
        f"  {command:{width}}  # {what}"
        for command, (_, what) in zip(commands, steps, strict=True)
    ]
    _log.info("\n".join(["Next:", *lines]))


def after_teacher(run_dir: str) -> list[tuple[list[str], str]]:
    """Returns the steps after `kdkit train-teacher`."""
    if not is_finished(run_dir):
        return []
    recipe = _fitting_recipe(run_dir)
    student = _free(f"{run_dir.rstrip(os.sep)}_{recipe}")
    distill = ["distill", recipe, "--teacher", run_dir, "--control"]
    return [
        (
            [*distill, "--run-dir", student],
            "a smaller student, on the same data",
        ),
        (["report", run_dir], "one page with tables and curves"),
    ]


def _fitting_recipe(teacher):
    """The recipe for copied layers that fits a teacher's depth."""
    depth = saved_size(teacher, *DEPTHS)
    return "pkd" if depth is None or depth >= LEAST_DEPTH else "vanilla_kd"


def _free(path):
    """The path, with a number if it exists."""
    number, free = 2, path
    while pathlib.Path(free).exists():
        number, free = number + 1, f"{path}_{number}"
    return free


def after_student(run_dir: str) -> list[tuple[list[str], str]]:
    """Returns the steps after a run that made a student or a language model."""
    if not is_finished(run_dir):
        return []
    steps = _after_collapse(run_dir)
    if steps:
        return steps
    place = models.find(run_dir)
    if place.kind == "decoder":
        generate = ["generate", run_dir, "--prompt", "The"]
        steps.append((generate, "text from the model"))
    if place.folder.name != "encoder" and place.kind != "encoder":
        export = ["export", run_dir]
        if place.kind == "decoder" and saved_size(run_dir, POSITIONS) is None:
            export += ["--sequence-length", "128"]  # it has no largest length
        steps.append((export, "verified files for phones and servers"))
    report = ["report", run_dir]
    return [*steps, (report, "one page with tables and curves")]


def _after_collapse(run_dir):
    """Further runs with more or larger updates, if the student collapsed."""
    run = RunDirectory(pathlib.Path(run_dir))
    best = run.made_arms.get("student")
    if best is None or not best.collapsed:
        return []
    settings = read_settings(run_dir, DistillSettings)
    if open_task(settings.data).generate is not None:
        return []  # a trial run on generated data
    (stage,) = (one for one in settings.stages if one.name == best.stage)
    losses = [
        event.logs["val_loss"]
        for event in run.events(Epoch)
        if (event.arm, event.stage) == ("student", best.stage)
    ]
    why = "the student has collapsed"
    if losses[-1] == min(losses):
        why = f"dev loss was still falling in epoch {len(losses)}"
    again = ["distill", settings.recipe, "--config", f"{run_dir}/{CONFIG}"]
    place = ["--run-dir", _free(f"{run_dir.rstrip(os.sep)}_again")]
    field = f"stages.{stage.name}"
    more = f"{field}.epochs={3 * stage.epochs}"
    larger = f"{field}.learning_rate={4 * stage.learning_rate:g}"
    return [
        ([*again, more, *place], why),
        ([*again, larger, *place], "or larger updates"),
    ]


def after_export(
    run_dir: str | None,
    files: Sequence[str],
    sequence_length: int | None = None,
) -> list[tuple[list[str], str]]:
    """Returns the steps after `kdkit export`."""
    measure = "latency on this machine"
    if run_dir is None:
        return [(["benchmark", *files], measure)]
    # kdkit benchmark RUN measures the files in these folders.
    folder = pathlib.Path(run_dir, "exports").resolve()
    folders = (folder, folder / "teacher")
    is_usual = all(pathlib.Path(f).resolve().parent in folders for f in files)
    steps = []
    # kdkit export RUN writes the teacher's int8 file, if that is possible.
    precisions = {
        file.precision
        for file in exported_files(read_run(run_dir), "teacher")
        if file.format == "litert"
    }
    if precisions and "fp32" not in precisions:
        words = ["--arm", "teacher", "--precision", "fp32"]
        if sequence_length is not None:
            words += ["--sequence-length", str(sequence_length)]
        steps.append((["export", run_dir, *words], "for the gain over it"))
    return [
        *steps,
        (["benchmark", *([run_dir] if is_usual else files)], measure),
        (["report", run_dir], "one page with sizes, latency and metrics"),
    ]
