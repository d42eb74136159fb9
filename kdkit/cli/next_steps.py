"""What to do after a verb: commands with the paths of its results."""

import contextlib
import contextvars
import logging
import os
import pathlib
import shlex
from collections.abc import Iterator, Sequence

from kdkit import models, tasks
from kdkit.reporting.records import read_run
from kdkit.reporting.results import exported_files
from kdkit.runs.directory import CONFIG, Run
from kdkit.runs.events import Model

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
    if not Run(run_dir).is_finished:
        return []
    (model,) = Run(run_dir).events(Model)
    recipe = "vanilla_kd" if (model.num_layers or 12) < LEAST_DEPTH else "pkd"
    student = f"{run_dir.rstrip(os.sep)}_{recipe}"
    distill = ["distill", recipe, "--teacher", run_dir, "--control"]
    return [
        (
            [*distill, "--run-dir", student],
            "a smaller student, on the same data",
        ),
        (["report", run_dir], "one page with tables and curves"),
    ]


def after_student(run_dir: str) -> list[tuple[list[str], str]]:
    """Returns the steps after a run that made a student or a language model."""
    if not Run(run_dir).is_finished:
        return []
    steps = _after_collapse(run_dir)
    if steps:
        return steps
    place, export = models.find(run_dir), ["export", run_dir]
    if place.kind == "decoder":
        generate = ["generate", run_dir, "--prompt", "The"]
        steps.append((generate, "text from the model"))
        export += ["--sequence-length", "128"]  # some have no largest length
    if place.folder.name != "encoder" and place.kind != "encoder":
        steps.append((export, "verified files for phones and servers"))
    return [*steps, (["report", run_dir], "one page with tables and curves")]


def _after_collapse(run_dir):
    """A further run with more updates, if the student collapsed."""
    run = Run(run_dir)
    best, config = run.made_arms.get("student"), run.config
    if best is None or not best.collapsed or config.kind != "task":
        return []
    if config.data.table is None and tasks.get_task(config.data.task).generate:
        return []  # a trial run on generated data
    (stage,) = (one for one in config.stages if one.name == best.stage)
    more = f"stages.{stage.name}.epochs={3 * stage.epochs}"
    place = ["--run-dir", f"{run_dir.rstrip(os.sep)}_again"]
    again = ["distill", f"{run_dir}/{CONFIG}", more, *place]
    return [(again, "more updates: the student has collapsed")]


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
    records = read_run(run_dir)
    of_teacher = {
        (file.format, file.precision)
        for file, _ in exported_files(records, "teacher")
    }
    has_reference = ("litert", "fp32") in of_teacher
    is_alike = records.config.teachers and not records.has_reranker
    if is_alike and not has_reference:
        words = ["--arm", "teacher", "--precision", "fp32", "int8"]
        if sequence_length is not None:
            words += ["--sequence-length", str(sequence_length)]
        steps.append((["export", run_dir, *words], "for the gain over it"))
    return [
        *steps,
        (["benchmark", *([run_dir] if is_usual else files)], measure),
        (["report", run_dir], "one page with sizes, latency and metrics"),
    ]
