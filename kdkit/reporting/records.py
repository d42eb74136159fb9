"""Reading run directories and files of records.

A file of records is JSON lines, sorted by name, with one run per line: its
name, its configuration and its events. It is small enough for version control.
"""

import dataclasses
import difflib
import fnmatch
import os
import pathlib
import re
from collections.abc import Sequence

from kdkit.errors import UsageError, printable, shortened
from kdkit.io.files import digest
from kdkit.io.reading import json_lines, read_json
from kdkit.runs.event_fields import LARGEST
from kdkit.runs.events import ARMS, LANGUAGE_MODELS, Event, Inputs, read_event
from kdkit.runs.predictions import Predictions, read_predictions

CONFIG_FILE = "config.json"
EVENTS_FILE = "metrics.jsonl"
OWN_TEACHER = "teacher_run"
# The data of sentence encoders' stages, in words.
EMBEDDING_TITLES = {
    "texts": "texts of",
    "translations": "translations of",
    "candidates": "queries with candidates of",
}
# Names of directories of one seed, and of steps before a command's own run.
SEED = re.compile(r"(?:^|[_-])seed[_-]?(\d+)$")
STEP = re.compile("(pretrained|teacher|general)_run")
_MAX_REMARKS = 10
_NOT_A_RUN = (
    "Pass the --run-dir of a `kdkit distill`, `train-teacher` or `pretrain`."
)


@dataclasses.dataclass(frozen=True)
class RunRecords:
    """The configuration and the events of one run, as plain data.

    Args:
        run_dir: pathlib.Path. The run directory, or FILE/NAME for a run from a
            file of records.
        config: dict. The resolved configuration, from `config.json`.
        events: tuple of `kdkit.runs.events.Event`. The lines of
            `metrics.jsonl` in order. The language model of a run on text is
            its student, or its teacher if the run has no other.
        remarks: tuple of strings. Problems found while reading, such as a
            cut-off last line.
        teacher_run: optional `RunRecords`. The run that trained the teacher,
            when the configuration's `"teacher"` is a run. Defaults to `None`.
        predictions: dict from arm to `kdkit.runs.predictions.Predictions`, the
            lines of `predictions.jsonl`. Defaults to `{}`, not measured.
    """

    run_dir: pathlib.Path
    config: dict
    events: tuple[Event, ...]
    remarks: tuple[str, ...] = ()
    teacher_run: "RunRecords | None" = None
    predictions: dict[str, Predictions] = dataclasses.field(
        default_factory=dict
    )

    @property
    def is_on_text(self) -> bool:
        """Whether the run is a `kdkit pretrain`, which has no task."""
        return self.config.get("verb") == "pretrain"

    @property
    def is_on_pairs(self) -> bool:
        """Whether the run learned from pairs of texts."""
        corpus = self.config.get("corpus") or {}
        return self.is_on_text and "columns" in corpus

    @property
    def trains_a_teacher(self) -> bool:
        """Whether the run trained a model without a teacher."""
        if self.is_on_text:
            return self.config.get("teacher") is None
        return self.config.get("verb") == "train-teacher"

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
        return self.provenance("command")

    @property
    def task(self) -> str:
        """The name of the task, empty if the configuration has none."""
        return str((self.config.get("data") or {}).get("task") or "")

    @property
    def embedding_data(self) -> str | None:
        """The data that a sentence encoder learned from, `None` for others."""
        stages = self.config.get("stages")
        first = stages[0] if isinstance(stages, list) and stages else None
        data = first.get("data") if isinstance(first, dict) else None
        return data if data in EMBEDDING_TITLES else None

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

    def provenance(self, key: str) -> str:
        """Returns a text from the provenance, empty if there is none."""
        return str((self.config.get("provenance") or {}).get(key) or "")

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
        UsageError: If `run_dir` is not a run directory or its `config.json`
            cannot be read.
    """
    run_dir = pathlib.Path(run_dir)
    records = _read_directory(run_dir)
    teacher = records.config.get("teacher")
    if not teacher:
        return records
    # Settings in place of a path: a teacher that the run trained itself.
    place = run_dir / OWN_TEACHER if isinstance(teacher, dict) else teacher
    sibling = _find_run(run_dir.parent / place)
    found = sibling or _find_run(pathlib.Path(place))
    if found is not None and _has_changed(records, found):
        remark = "The teacher's run has another model now, which is not shown."
        return dataclasses.replace(records, remarks=(*records.remarks, remark))
    return _with_teacher(records, found)


def _has_changed(records, teacher_run):
    """Whether the teacher's run has another model since the run."""
    logged = [one.digests.get("teacher") for one in records.events_of(Inputs)]
    models = [
        path
        for suffix in ("", ".keras")  # in the order in which they are opened
        for arm in ("student", "teacher", *LANGUAGE_MODELS)
        if (path := teacher_run.run_dir / f"{arm}{suffix}").exists()
    ]
    return bool(logged and logged[0] and models) and (
        digest(models[0]) != logged[0]
    )


def read_records(
    path: str | os.PathLike, only: Sequence[str] = ()
) -> list[RunRecords]:
    """Reads the runs in a file of records, which `keep_records` writes.

    Args:
        path: string or path of the file.
        only: sequence of strings. Names of runs, in which `*`, `?` and
            `[...]` match as in a shell; runs are returned in the order of
            these. Defaults to `()`, which is all runs in the order of the file,
            without those that are only the teacher inside of another run.

    Returns:
        A list of `RunRecords`, with their teachers' runs from the same file.

    Raises:
        UsageError: If the file cannot be read, a line is not a record, or a
            name in `only` matches nothing.
    """
    path = pathlib.Path(path)
    runs = _read_file(path)
    names = [name for name in runs if not name.endswith(f"/{OWN_TEACHER}")]
    if only:
        chosen = {}
        for pattern in only:
            found = fnmatch.filter(names, pattern)
            if not found:
                near = difflib.get_close_matches(pattern.strip("*"), names)
                raise UsageError(
                    f"{path} has no run {pattern!r}. Expected names or "
                    f"patterns of its {len(names)} runs, such as "
                    f"{', '.join(near or names[:3])}."
                )
            chosen.update(dict.fromkeys(found))
        names = list(chosen)
    return [_joined_with_teacher(runs, name) for name in names]


def is_run(directory: pathlib.Path) -> bool:
    """Whether a directory has the records of a run."""
    # Not `is_file`, which fails where names are too long.
    return all(
        os.path.isfile(directory / name) for name in (CONFIG_FILE, EVENTS_FILE)
    )


def finite_numbers(numbers: dict | None) -> dict:
    """Returns the numbers that can be shown: no strings, NaN or infinity."""
    return {
        name: float(value)
        for name, value in (numbers or {}).items()
        if isinstance(value, int | float) and abs(value) <= LARGEST
    }


def _with_teacher(records, teacher_run):
    """Records with their teacher's run, if there is one."""
    if teacher_run is None:
        return records
    remarks = (f"Teacher's run: {remark}" for remark in teacher_run.remarks)
    return dataclasses.replace(
        records, remarks=(*records.remarks, *remarks), teacher_run=teacher_run
    )


def _joined_with_teacher(runs, name):
    """A run in a file of records with the run of its teacher."""
    teacher = runs[name].config.get("teacher")
    if not teacher:
        return runs[name]
    place = f"{name}/{OWN_TEACHER}" if isinstance(teacher, dict) else teacher
    return _with_teacher(runs[name], runs.get(place))


def records_in(path: pathlib.Path) -> dict[str, dict]:
    """Returns the lines of a file of records by name, as JSON has them."""
    if path.is_dir() or not path.exists():
        found = "a directory" if path.is_dir() else "nothing there"
        raise UsageError(
            f"{str(path)!r} is not a file of records. Expected a file that "
            f"`kdkit report RUN... --keep FILE` wrote. Received: {found}."
        )
    records = {}
    for number, line in json_lines(path):
        problem = _record_error(line, records)
        if problem is not None:
            raise UsageError(
                f"{path}, line {number}, is not a record of a run: {problem}. "
                "Expected a line that `kdkit report RUN... --keep FILE` wrote. "
                "Restore the file from a copy."
            )
        records[line["name"]] = line
    return records


def _read_file(path):
    """The runs in a file of records, by name, without their teachers."""
    runs = {}
    for name, line in records_in(path).items():
        config = _shown(line["config"])
        events, remarks = _checked_events(
            enumerate(line["events"], 1), f"the events of {name}", config
        )
        runs[name] = RunRecords(path / name, config, events, remarks)
    return runs


def _record_error(line, others):
    """Returns the error in a line of a file of records, or `None`."""
    if line is None:
        return "it is damaged, or not JSON"
    name, config = line.get("name"), line.get("config")
    if not isinstance(name, str) or not isinstance(config, dict):
        return "it lacks a name or a configuration"
    parts = pathlib.PurePath(name).parts
    if not parts or parts[0] == "/" or ".." in parts or printable(name) != name:
        return f"its name is {shortened(repr(name))}"
    if name in others:
        return f"{name!r} occurs twice"
    if not isinstance(line.get("events"), list):
        return "it lacks a list of events"
    return _settings_problem(config)


def _read_directory(run_dir):
    config = _read_config(run_dir)
    if "verb" not in config and not (run_dir / EVENTS_FILE).is_file():
        raise UsageError(
            f"{str(run_dir)!r} is not a run directory. Expected the "
            f"{CONFIG_FILE} of a run, with its verb. Received: a {CONFIG_FILE} "
            f"of something else, such as a model. {_NOT_A_RUN}"
        )
    path = run_dir / EVENTS_FILE
    if path.is_file():
        events, remarks = _checked_events(json_lines(path), EVENTS_FILE, config)
    else:
        events = ()
        remarks = (f"There is no {EVENTS_FILE}: nothing was run yet.",)
    predictions, damaged = read_predictions(run_dir)
    return RunRecords(
        run_dir, config, events, remarks + damaged, predictions=predictions
    )


def _renamed(event, names):
    """An event with other names of arms."""
    line = dict(event.line)
    if isinstance(line.get("arm"), str):
        line["arm"] = names.get(line["arm"], line["arm"])
    if isinstance(line.get("best"), dict):
        line["best"] = {
            names.get(arm, arm): best for arm, best in line["best"].items()
        }
    return read_event(line)


_SETTINGS = {
    "verb": str,
    "recipe": str,
    "data": dict,
    "corpus": dict,
    "cache": dict,
    "provenance": dict,
    "teacher": (str, dict),
    "seed": int,
    "teacher_weights": list,
}


def _settings_problem(config):
    """What is wrong with a run's settings, as far as reports read them."""
    for name, kind in _SETTINGS.items():
        value = config.get(name)
        if value is not None and not isinstance(value, kind):
            return f"expected another type of {name!r}"
    provenance = config.get("provenance") or {}
    versions = provenance.get("versions") or {}
    task = (config.get("data") or {}).get("task") or ""
    corpus = config.get("corpus") or {}
    languages = corpus.get("languages", None if "columns" in corpus else [])
    if not isinstance(versions, dict):
        return "expected an object as 'provenance.versions'"
    for name in ("command", "commit", "machine"):
        if not isinstance(provenance.get(name), str | None):
            return f"expected a text as 'provenance.{name}'"
    if not isinstance(task, str):
        return "expected a name as 'data.task'"
    table = (config.get("data") or {}).get("table") or {}
    if not isinstance(table, dict) or not isinstance(
        table.get("train"), str | None
    ):
        return "expected an object with a path as 'data.table'"
    if not isinstance(languages, list) or not all(
        isinstance(name, str) for name in languages
    ):
        return "expected names as 'corpus.languages'"
    return None


def _read_config(run_dir):
    path = run_dir / CONFIG_FILE
    if not path.is_file():
        found = "a directory without it"
        if not run_dir.exists():
            found = "nothing there"
        elif not run_dir.is_dir():
            found = "a file"
        raise UsageError(
            f"{str(run_dir)!r} is not a run directory. Expected a directory "
            f"with a {CONFIG_FILE}. Received: {found}. {_NOT_A_RUN}"
        )
    config = read_json(path, "the settings of a run", _settings_problem)
    return _shown(config)


def _checked_events(lines, where, config):
    """The events among numbered objects, and remarks on the others."""
    run, names = RunRecords(pathlib.Path(), config, ()), {}
    if run.is_on_text:
        names = dict.fromkeys(LANGUAGE_MODELS, run.trained_arm)
    events, left_out = [], []
    number = 0
    for number, line in lines:
        event = read_event(_shown(line)) if isinstance(line, dict) else None
        if event is None:
            left_out.append(number)
        else:
            events.append(_renamed(event, names) if names else event)
    remarks = [
        f"Line {line} of {where} is not an event and was ignored."
        for line in left_out[:_MAX_REMARKS]
    ]
    if len(left_out) > _MAX_REMARKS:
        more = len(left_out) - _MAX_REMARKS
        remarks.append(f"So were {more} more lines of it.")
    elif left_out and left_out[-1] == number:
        remarks[-1] = f"The last line of {where} is truncated and was ignored."
    return tuple(events), tuple(remarks)


def _shown(value):
    """Escapes the characters in a value that a terminal interprets."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _shown(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_shown(entry) for entry in value]
    return value


def _find_run(teacher):
    """The run that trained a teacher, `None` where it is no run."""
    if is_run(teacher):
        return _read_directory(teacher)
    if os.path.isdir(teacher) and is_run(teacher.parent):
        run = _read_directory(teacher.parent)
        names = (run.trained_arm, *LANGUAGE_MODELS)
        return run if teacher.name in names else None
    return None
