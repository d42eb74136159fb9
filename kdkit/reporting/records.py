"""Reading run directories."""

import dataclasses
import math
import os
import pathlib
import re

from kdkit.config.runs import AnyRun
from kdkit.io.files import digest
from kdkit.runs.directory import CONFIG, EVENTS, PROVENANCE, Run
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

# The end of the name of a directory of one seed.
SEED = re.compile(r"(?:^|[_-])seed[_-]?\d+$")


@dataclasses.dataclass(frozen=True)
class RunRecords:
    """The config and the events of one run.

    Args:
        run_dir: pathlib.Path. The run directory.
        config: a run's config, such as `TaskConfig`.
        events: tuple of `kdkit.runs.events.Event`. Those of `metrics.jsonl` in
            order, the last one of each key. The language model of a run on
            text is its student, or its teacher if the run has no other.
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
    def trains_a_teacher(self) -> bool:
        """Whether the run trained a model without a teacher."""
        return not self.config.teachers

    @property
    def arms(self) -> tuple[str, ...]:
        """The models that such a run can have, in the order of a table."""
        if self.trains_a_teacher:
            return ("teacher",)
        return ("teacher", "student") if self.is_on_text else ARMS

    @property
    def trained_arm(self) -> str:
        """The model that other runs may take as their teacher."""
        return self.arms[-1]

    @property
    def command(self) -> str:
        """The command that made the run, empty if it is not recorded."""
        return self.provenance.get("command") or ""

    @property
    def teacher_place(self) -> pathlib.Path:
        """Where the teacher is, the same for runs that share it."""
        if self.teacher_run is not None:
            return self.teacher_run.run_dir.resolve()
        place = _teacher(self.config, self.run_dir.resolve())
        return pathlib.Path(place or self.run_dir.resolve())

    @property
    def task(self) -> str:
        """The name of the task, empty if the config has none."""
        if self.is_on_text:
            return ""
        data = self.config.data
        data = data.scored if self.config.kind == "embedder" else data
        return "" if data is None else data.task

    @property
    def subject(self) -> str:
        """What the run is measured on: its text, or its task and examples."""
        if self.is_on_text:
            return self.config.corpus.model_dump_json()
        data, names = self.config.data, ("data.held_out", "data.files")
        data = data.scored if self.config.kind == "embedder" else data
        if data is not None:
            names = (data.dev_split,)
        digests = {}
        for event in self.events_of(Inputs):
            digests = event.digests
        found = [digests[name][:8] for name in names if digests.get(name)]
        return " ".join(filter(None, [self.task, *found[:1]]))

    @property
    def has_reranker(self) -> bool:
        """Whether the teacher scores pairs, for a student of vectors."""
        data = getattr(self.config, "data", None)
        return getattr(data, "kind", None) == "candidates"

    def called(self, arm: str) -> str:
        """Returns the name of an arm in tables and sentences.

        A model that learned from text without a teacher may become a student
        or a teacher in other runs: its word is "model".
        """
        alone = self.is_on_text and self.trains_a_teacher
        return "model" if alone else arm

    def events_of(self, kind: type[Event], **fields) -> list:
        """Returns the events of one kind, oldest first.

        Args:
            kind: class from `kdkit.runs.events`, such as `Epoch`.
            **fields: values that fields of the events have, such as
                `arm="student"`.
        """
        return [
            event
            for event in self.events
            if type(event) is kind
            and all(getattr(event, name) == one for name, one in fields.items())
        ]


def seedless(place: pathlib.Path) -> pathlib.Path:
    """The folder that a run has in common with those of other seeds.

    Runs of several seeds are in `NAME_seed0`, `NAME_seed1` or in
    `NAME/seed_0`, `NAME/seed_1`.
    """
    name = SEED.sub("", place.name)
    return place.with_name(name) if name else place.parent


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
    found = None
    if place is not None:
        sibling = _find_run(run_dir.parent / place)
        found = sibling or _find_run(pathlib.Path(place))
    if found is None:
        return records
    remarks = [f"Teacher's run: {remark}" for remark in found.remarks]
    if _has_changed(records, found):
        found = None
        remarks = ["The teacher's run has another model now, not shown here."]
    return dataclasses.replace(
        records, remarks=(*records.remarks, *remarks), teacher_run=found
    )


def is_run(directory: pathlib.Path) -> bool:
    """Whether a directory has the records of a run."""
    # Not `is_file`, which fails where names are too long.
    return all(os.path.isfile(directory / name) for name in (CONFIG, EVENTS))


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


def _read_directory(run_dir):
    run, path = Run(run_dir), run_dir / EVENTS
    events, remarks = [], (f"No {EVENTS}: nothing was run yet.",)
    if path.is_file():
        events, damaged = read_log(path)
        lines = ", ".join(map(str, damaged))
        remarks = (f"Ignored in {EVENTS}, no events: line {lines}.",)
        remarks = remarks if damaged else ()
    predictions, damaged = read_predictions(run_dir)
    records = RunRecords(
        run_dir,
        run.config,
        (),
        remarks + damaged,
        predictions=predictions,
        provenance=run.saved.get(PROVENANCE) or {},
    )
    names = {}
    if records.is_on_text:
        names = dict.fromkeys(LANGUAGE_MODELS, records.trained_arm)
    events = tuple(_readable(event, names) for event in events)
    return dataclasses.replace(records, events=events)


def _readable(event, names):
    """An event with other names of arms, and only numbers in its metrics."""
    changes = {}
    if isinstance(event, RunFinished):
        changes["best"] = {
            names.get(arm, arm): _readable(one, {})
            for arm, one in event.best.items()
        }
    if getattr(event, "arm", None) in names:
        changes["arm"] = names[event.arm]
    for name in {"metrics", "agreement", "logs"} & {*vars(event)}:
        changes[name] = finite_numbers(getattr(event, name))
    return dataclasses.replace(event, **changes)


def finite_numbers(numbers: dict | None) -> dict[str, float]:
    """Returns the numbers that can be shown: no strings, NaN or infinity."""
    return {
        name: float(value)
        for name, value in (numbers or {}).items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _find_run(teacher):
    """The run that trained a teacher, `None` where it is no run."""
    if is_run(teacher):
        return _read_directory(teacher)
    if os.path.isdir(teacher) and is_run(teacher.parent):
        run = _read_directory(teacher.parent)
        names = (run.trained_arm, *LANGUAGE_MODELS)
        return run if teacher.name in names else None
    return None
