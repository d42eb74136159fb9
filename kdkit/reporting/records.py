"""Reading what a run directory says about its run: config and events."""

import dataclasses
import os
import pathlib
import re

from kdkit.errors import UsageError
from kdkit.errors import printable
from kdkit.reading import MAX_SETTINGS_BYTES
from kdkit.reading import json_lines
from kdkit.reading import read_json
from kdkit.reporting.event_fields import ARMS
from kdkit.reporting.event_fields import LANGUAGE_MODELS
from kdkit.reporting.event_fields import LARGEST
from kdkit.reporting.event_fields import NUMBER
from kdkit.reporting.event_fields import is_event
from kdkit.reporting.event_fields import problem_of_settings

CONFIG_FILE = "config.json"
EVENTS_FILE = "metrics.jsonl"
OWN_TEACHER = "teacher_run"
# Directories of one seed, and of what a command made before its own run.
SEED = re.compile(r"(?:^|[_-])seed[_-]?(\d+)$")
STEP = re.compile("(pretrained|teacher|general)_run")
MAX_REMARKS = 10  # on lines that are no events


@dataclasses.dataclass(frozen=True)
class RunRecords:
    """What one run directory holds, as plain data.

    Args:
        run_dir: pathlib.Path. The run directory.
        config: dict. The resolved configuration, from `config.json`.
        events: tuple of dicts. The lines of `metrics.jsonl` in order; each
            has at least the keys `"event"` and `"time"`. The language
            model of a run on text is its student, or its teacher if the run
            has no other.
        remarks: tuple of strings. What a reader of the numbers should know
            about the reading itself, such as a cut-off last line.
        teacher_run: optional `RunRecords`. The run that trained the teacher,
            when the configuration's `"teacher"` is a run directory.
            Defaults to `None`.
    """

    run_dir: pathlib.Path
    config: dict
    events: tuple[dict, ...]
    remarks: tuple[str, ...] = ()
    teacher_run: "RunRecords | None" = None

    @property
    def is_on_text(self) -> bool:
        """Whether the run is one of `kdkit pretrain`, about no task."""
        return self.config.get("verb") == "pretrain"

    @property
    def is_on_pairs(self) -> bool:
        """Whether the run learned from pairs of texts."""
        corpus = self.config.get("corpus") or {}
        return self.is_on_text and "columns" in corpus

    @property
    def trains_a_teacher(self) -> bool:
        """Whether the run trained a teacher and distils nothing."""
        if self.is_on_text:
            return self.config.get("teacher") is None
        return self.config.get("verb") == "train-teacher"

    @property
    def arms(self) -> tuple[str, ...]:
        """What such a run can have, in the order of a table."""
        if self.trains_a_teacher:
            return ("teacher",)
        return ("teacher", "student") if self.is_on_text else ARMS

    @property
    def trained_arm(self) -> str:
        """The arm whose model others may take as their teacher."""
        return "teacher" if self.trains_a_teacher else "student"

    def called(self, arm: str) -> str:
        """Returns what a reader calls an arm.

        A model that learned from text without a teacher is as often to be the
        student of others as their teacher: it is called the model.
        """
        alone = self.is_on_text and self.trains_a_teacher
        return "model" if alone else arm

    def events_of(self, kind: str, arm: str | None = None) -> list[dict]:
        """Returns the events of one kind, oldest first.

        Args:
            kind: string. The value of `"event"`, such as `"epoch"`.
            arm: optional string. Only the events of this arm (`"teacher"`,
                `"student"` or `"control"`). Defaults to `None`, all arms.
        """
        return [
            event
            for event in self.events
            if event["event"] == kind and arm in (None, event.get("arm"))
        ]


def read_run(run_dir: str | os.PathLike) -> RunRecords:
    """Reads a run directory and, where there is one, its teacher's.

    Nothing but `config.json` and `metrics.jsonl` is read. A line that is not
    a whole event, as a process that dies while writing leaves it, is skipped
    and named in `remarks`.

    Args:
        run_dir: string or path. A directory made by `kdkit train-teacher`,
            `kdkit distill` or `kdkit pretrain`.

    Returns:
        The `RunRecords` of the run.

    Raises:
        UsageError: If `run_dir` is no run directory or its `config.json`
            cannot be read.
    """
    run_dir = pathlib.Path(run_dir)
    records = _read_one_run(run_dir)
    teacher = records.config.get("teacher")
    if not teacher:
        return records
    # Settings in place of a path: a teacher that the run trained itself.
    place = run_dir / OWN_TEACHER if isinstance(teacher, dict) else teacher
    # Records that were kept without the models name the one beside them.
    beside = run_dir.parent / place
    teacher_run = _find_run(beside) or _find_run(pathlib.Path(place))
    if teacher_run is not None:
        remarks = records.remarks + tuple(
            f"Teacher's run: {remark}" for remark in teacher_run.remarks
        )
        return dataclasses.replace(
            records, remarks=remarks, teacher_run=teacher_run
        )
    return dataclasses.replace(
        records,
        remarks=records.remarks
        + (
            f"The teacher {place} is no run directory here, so files "
            "exported from it and their latency are not known.",
        ),
    )


def finite_numbers(numbers: dict | None) -> dict:
    """Keeps the numbers that can be shown: no text, no NaN, no infinity.

    What is above 1e100 is as good as infinite.
    """
    return {
        name: float(value)
        for name, value in (numbers or {}).items()
        if isinstance(value, NUMBER) and abs(value) <= LARGEST
    }


def _read_one_run(run_dir):
    config = _read_config(run_dir)
    if "verb" not in config and not (run_dir / EVENTS_FILE).is_file():
        raise UsageError(
            f"{str(run_dir)!r} is no run directory. Expected the {CONFIG_FILE} "
            f"of a run, with its verb. Received: a {CONFIG_FILE} of something "
            "else, such as a model. Pass the --run-dir of a `kdkit distill`, "
            "`train-teacher` or `pretrain`."
        )
    events, remarks = _read_events(run_dir / EVENTS_FILE)
    records = RunRecords(run_dir, config, events, remarks)
    if not records.is_on_text:
        return records
    names = dict.fromkeys(LANGUAGE_MODELS, records.trained_arm)
    events = tuple(_renamed(event, names) for event in events)
    return dataclasses.replace(records, events=events)


def _renamed(event, names):
    """An event with other names of arms."""
    event = dict(event)
    if "arm" in event:
        event["arm"] = names.get(event["arm"], event["arm"])
    if isinstance(event.get("best"), dict):
        event["best"] = {
            names.get(arm, arm): best for arm, best in event["best"].items()
        }
    return event


def _read_config(run_dir):
    path = run_dir / CONFIG_FILE
    if not path.is_file():
        found = "a directory without it"
        if not run_dir.exists():
            found = "nothing there"
        elif not run_dir.is_dir():
            found = "a file"
        raise UsageError(
            f"{str(run_dir)!r} is no run directory. Expected a directory with "
            f"a {CONFIG_FILE}. Received: {found}. Pass the --run-dir of a "
            "`kdkit distill`, `train-teacher` or `pretrain`."
        )
    config = read_json(
        path, "the settings of a run", problem_of_settings, MAX_SETTINGS_BYTES
    )
    return _shown(config)


def _read_events(path):
    if not path.is_file():
        return (), (f"There is no {EVENTS_FILE}: nothing was run yet.",)
    events = []
    left_out = []
    number = 0
    for number, event in json_lines(path):
        if event is not None and is_event(event):
            events.append(_shown(event))
        else:
            left_out.append(number)
    remarks = [
        f"Line {line} of {EVENTS_FILE} is no event and was left out."
        for line in left_out[:MAX_REMARKS]
    ]
    if len(left_out) > MAX_REMARKS:
        remarks.append(
            f"So were {len(left_out) - MAX_REMARKS} more lines of it."
        )
    elif left_out and left_out[-1] == number:
        remarks[-1] = (
            f"The last line of {EVENTS_FILE} is cut off and was left out."
        )
    return tuple(events), tuple(remarks)


def _shown(value):
    """A value whose texts a terminal shows and does not obey."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _shown(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_shown(entry) for entry in value]
    return value


def _find_run(teacher):
    """Returns the run that a teacher comes from, `None` where it is no run.

    `teacher` is the run directory or the model within it.
    """
    if is_run(teacher):
        return _read_one_run(teacher)
    if os.path.isdir(teacher) and is_run(teacher.parent):
        run = _read_one_run(teacher.parent)
        names = (run.trained_arm, *LANGUAGE_MODELS)
        return run if teacher.name in names else None
    return None


def is_run(directory: pathlib.Path) -> bool:
    """Whether there are the records of a run in a directory."""
    # Not `is_file`, which fails where names are too long.
    return all(
        os.path.isfile(directory / name) for name in (CONFIG_FILE, EVENTS_FILE)
    )
