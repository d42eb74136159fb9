"""Reading run directories."""

import dataclasses
import math
import os
import pathlib
import re

from kdkit.config.runs import AnyRun
from kdkit.io.files import digest
from kdkit.runs.directory import CONFIG, EVENTS, Run
from kdkit.runs.events import (
    ARMS,
    LANGUAGE_MODELS,
    Event,
    Inputs,
    RunFinished,
    read_log,
)
from kdkit.runs.predictions import Predictions, read_predictions
from kdkit.runs.steps import model_place

# Names of directories of one seed, and of steps before a command's own run.
SEED = re.compile(r"(?:^|[_-])seed[_-]?(\d+)$")
STEP = re.compile("(pretrained|teacher|general)_run")


@dataclasses.dataclass(frozen=True)
class RunRecords:
    """The config and the events of one run.

    Args:
        run_dir: pathlib.Path. The run directory.
        config: a run's config, such as `TaskConfig`.
        events: tuple of `kdkit.runs.events.Event`. Those of
            `metrics.jsonl` in order, the last one of each key. The language
            model of a run on text is its student, or its teacher if the run
            has no other.
        remarks: tuple of strings. Problems found while reading, such as a
            cut-off last line.
        teacher_run: optional `RunRecords`. The run that trained the teacher,
            if the config's first teacher is a run. Defaults to `None`.
        predictions: dict from arm to `kdkit.runs.predictions.Predictions`, the
            lines of `predictions.jsonl`. Defaults to `{}`, not measured.
        provenance: dict. How the run was made: the command, the commit, the
            machine and the versions. Defaults to `{}`, not recorded.
    """

    run_dir: pathlib.Path
    config: AnyRun
    events: tuple[Event, ...]
    remarks: tuple[str, ...] = ()
    teacher_run: "RunRecords | None" = None
    predictions: dict[str, Predictions] = dataclasses.field(
        default_factory=dict
    )
    provenance: dict = dataclasses.field(default_factory=dict)

    @property
    def is_on_text(self) -> bool:
        """Whether the run trains a language model, which has no task."""
        return self.config.kind == "text"

    @property
    def is_on_pairs(self) -> bool:
        """Whether the run learned from pairs of texts."""
        return self.is_on_text and self.config.corpus.kind == "pairs"

    @property
    def trains_a_teacher(self) -> bool:
        """Whether the run trained a model without a teacher."""
        return not self.config.teachers

    @property
    def is_distillation(self) -> bool:
        """Whether the run trained a student on a task or for embeddings."""
        return not (self.trains_a_teacher or self.is_on_text)

    @property
    def arms(self) -> tuple[str, ...]:
        """The models that such a run can have, in the order of a table."""
        if self.trains_a_teacher:
            return ("teacher",)
        return ("teacher", "student") if self.is_on_text else ARMS

    @property
    def trained_arm(self) -> str:
        """The model that other runs may take as their teacher."""
        return "teacher" if self.trains_a_teacher else "student"

    @property
    def command(self) -> str:
        """The command that made the run, empty if it is not recorded."""
        return self.provenance.get("command") or ""

    @property
    def teacher_place(self) -> pathlib.PurePath:
        """Where the teacher is, the same for runs that share it."""
        if self.teacher_run is not None:
            return self.teacher_run.run_dir.resolve()
        place = _teacher(self.config, self.run_dir.resolve())
        return pathlib.PurePath(place or self.run_dir.resolve())

    @property
    def task(self) -> str:
        """The name of the task, empty if the config has none."""
        data = getattr(self.config, "data", None)
        if self.embedding_data is not None:
            data = data.scored
        return "" if data is None else data.task

    @property
    def embedding_data(self) -> str | None:
        """The data that a sentence encoder learned from, `None` for others."""
        is_embedder = self.config.kind == "embedder"
        return self.config.data.kind if is_embedder else None

    @property
    def name(self) -> str:
        """The name of the run's directory without its seed.

        Runs of several seeds are in `NAME_seed0`, `NAME_seed1` or in
        `NAME/seed_0`, `NAME/seed_1`; runs of an ablation in `DIR/ARM/seed_0`,
        whose name is `DIR_ARM`; and steps before a command's own run in
        `NAME/teacher_run`, whose name is `NAME_teacher`.
        """
        path = self.run_dir.resolve()
        name = SEED.sub("", path.name)
        if not name:
            name = path.parent.name
            if self.is_ablation:
                name = f"{path.parent.parent.name}_{name}"
        step = STEP.fullmatch(name)
        return f"{path.parent.name}_{step.group(1)}" if step else name

    @property
    def label(self) -> str:
        """The name of the run with its seed: `NAME_seed0` for `NAME/seed_0`."""
        name = self.run_dir.resolve().name
        if SEED.fullmatch(name):
            return f"{self.name}_seed{SEED.search(name).group(1)}"
        return self.name if STEP.fullmatch(name) else name

    @property
    def is_ablation(self) -> bool:
        """Whether `kdkit ablate` made the run."""
        return self.command.startswith("kdkit ablate ")

    def called(self, arm: str) -> str:
        """Returns the name of an arm in tables and sentences.

        A model that learned from text without a teacher may become a student
        or a teacher in other runs: its word is "model".
        """
        alone = self.is_on_text and self.trains_a_teacher
        return "model" if alone else arm

    def events_of(self, kind: type[Event], arm: str | None = None) -> list:
        """Returns the events of one kind, oldest first.

        Args:
            kind: class from `kdkit.runs.events`, such as `Epoch`.
            arm: optional string. Only the events of this arm (`"teacher"`,
                `"student"` or `"control"`). Defaults to `None`, all arms.
        """
        return [
            event
            for event in self.events
            if type(event) is kind and (arm is None or event.arm == arm)
        ]


def read_run(run_dir: str | os.PathLike) -> RunRecords:
    """Reads a run directory and, where it exists, the teacher's.

    Only `config.json`, `metrics.jsonl` and `predictions.jsonl` are read. A
    line that is not a complete event, such as the last line of a process that
    died, is skipped and listed in `remarks`.

    Args:
        run_dir: string or path. A directory made by `kdkit train-teacher`,
            `kdkit distill` or `kdkit pretrain`.

    Returns:
        The `RunRecords` of the run.

    Raises:
        UsageError: If `config.json` is missing or cannot be read.
    """
    run_dir = pathlib.Path(run_dir)
    records = _read_directory(run_dir)
    place = _teacher(records.config, run_dir)
    if place is None:
        return records
    sibling = _find_run(run_dir.parent / place)
    found = sibling or _find_run(pathlib.Path(place))
    if found is not None and _has_changed(records, found):
        remark = "The teacher's run has another model now, which is not shown."
        return dataclasses.replace(records, remarks=(*records.remarks, remark))
    if found is None:
        return records
    remarks = (f"Teacher's run: {remark}" for remark in found.remarks)
    return dataclasses.replace(
        records, remarks=(*records.remarks, *remarks), teacher_run=found
    )


def _teacher(config, run_dir):
    """The place of a run's first teacher, `None` without one."""
    teachers = config.teachers
    return model_place(teachers[0], config, run_dir) if teachers else None


def _has_changed(records, teacher_run):
    """Whether the teacher's run has another model since the run."""
    logged = [one.digests.get("teacher") for one in records.events_of(Inputs)]
    models = [
        path
        for arm in ("student", "teacher", *LANGUAGE_MODELS)
        if (path := teacher_run.run_dir / arm).exists()
    ]
    return bool(logged and logged[0] and models) and (
        digest(models[0]) != logged[0]
    )


def is_run(directory: pathlib.Path) -> bool:
    """Whether a directory has the records of a run."""
    # Not `is_file`, which fails where names are too long.
    return all(os.path.isfile(directory / name) for name in (CONFIG, EVENTS))


def finite_numbers(numbers: dict | None) -> dict:
    """Returns the numbers that can be shown: no strings, NaN or infinity."""
    return {
        name: float(value)
        for name, value in (numbers or {}).items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _read_directory(run_dir):
    run = Run(run_dir)
    config = run.config
    path = run_dir / EVENTS
    events, remarks = (), (f"No {EVENTS}: nothing was run yet.",)
    if path.is_file():
        events, remarks = _read_events(path, config)
    predictions, damaged = read_predictions(run_dir)
    return RunRecords(
        run_dir,
        config,
        events,
        remarks + damaged,
        predictions=predictions,
        provenance=run.saved.get("provenance") or {},
    )


def _renamed(event, names):
    """An event with other names of arms."""
    if isinstance(event, RunFinished):
        best = {names.get(arm, arm): one for arm, one in event.best.items()}
        return dataclasses.replace(event, best=best)
    arm = getattr(event, "arm", None)
    return dataclasses.replace(event, arm=names[arm]) if arm in names else event


def _read_events(path, config):
    """The events in a log, and a remark on its other lines."""
    run, names = RunRecords(pathlib.Path(), config, ()), {}
    if run.is_on_text:
        names = dict.fromkeys(LANGUAGE_MODELS, run.trained_arm)
    found, damaged = read_log(path)
    remarks = ()
    if damaged:
        lines = ", ".join(map(str, damaged))
        remarks = (f"Ignored in {EVENTS}, no events: line {lines}.",)
    return tuple(_renamed(event, names) for event in found), remarks


def _find_run(teacher):
    """The run that trained a teacher, `None` where it is no run."""
    if is_run(teacher):
        return _read_directory(teacher)
    if os.path.isdir(teacher) and is_run(teacher.parent):
        run = _read_directory(teacher.parent)
        names = (run.trained_arm, *LANGUAGE_MODELS)
        return run if teacher.name in names else None
    return None
