"""Run directories: configuration, event log, and one process at a time."""

import contextlib
import functools
import json
import pathlib
import time
import warnings

from kdkit.backends import need_tensorflow
from kdkit.config.runs import ADAPTER
from kdkit.errors import RunError, UsageError
from kdkit.io.files import (
    is_left_over,
    remove_left_over,
    with_own_digest,
    write_text,
)
from kdkit.io.locks import append_line, locked
from kdkit.io.reading import read_json
from kdkit.runs.events import (
    Best,
    Epoch,
    Event,
    RunFinished,
    read_log,
)
from kdkit.runs.settings import MODELS, without_changeable
from kdkit.settings import differences, differing_fields, from_dict, to_dict
from kdkit.training.distribution import ONE_DEVICE

CONFIG, LOCK = "config.json", ".lock"
EVENTS, CHECKPOINTS = "metrics.jsonl", "checkpoints"
PROVENANCE = "provenance"
INPUTS = "inputs"  # models and data that a call had in memory
# Saved with the settings if the run has several replicas.
REPLICAS = "replicas"


class RunDirectory:
    """The directory of one run: configuration, log, checkpoints and models."""

    def __init__(self, path, is_read_only=False, replicas=1):
        self.path = path
        self.is_read_only = is_read_only
        self.replicas = replicas

    def write_config(self, settings: dict, provenance: dict) -> None:
        """Writes `config.json`, unless an earlier start of the run wrote it."""
        if self.is_read_only or (self.path / CONFIG).exists():
            return
        noted = {REPLICAS: self.replicas} if self.replicas > 1 else {}
        write_json(
            self.path / CONFIG, {**settings, **noted, PROVENANCE: provenance}
        )

    def note_moved_models(self, settings: dict) -> None:
        """Notes the paths of models that have moved in `config.json`."""
        if self.is_read_only or not (self.path / CONFIG).exists():
            return
        found = differing_fields(read_config(self.path), settings)
        if any({*field.split(".")} & {*MODELS} for field in found):
            there = _read_config_file(self.path)
            write_json(self.path / CONFIG, {**there, **settings})

    def log(self, event: Event) -> None:
        """Appends an event, unless the last one of its key has its values."""
        if self.is_read_only:
            return
        fields = json.dumps(event.to_dict())
        if event.key is not None and fields in (
            json.dumps(known.to_dict()) for known in self.events(type(event))
        ):
            return
        line = {"event": event.kind, "time": time.time(), **event.to_dict()}
        append_line(self.path / EVENTS, json.dumps(with_own_digest(line)))

    def note(self, event: Event) -> bool:
        """Logs an event of a verb that reads the run; warns if it cannot."""
        try:
            self.log(event)
        except (OSError, RunError) as error:  # such as a read-only disk
            warnings.warn(f"Not logged in the run: {error}", stacklevel=2)
            return False
        return True

    def events(self, kind: type[Event] = Event) -> list:
        """Returns the last logged event of each key, all or those of a kind."""
        path = self.path / EVENTS
        if not path.exists():
            return []
        found, _ = read_log(path)
        return [event for event in found if isinstance(event, kind)]

    @property
    def is_finished(self) -> bool:
        """Whether the log has the end of the run and all its models exist."""
        return self.has_ended and not self.lost_arms

    @property
    def made_arms(self) -> dict[str, Best]:
        """The finished arms whose models exist."""
        return {
            arm: best
            for arm, best in self._ended_arms.items()
            if self._has_model(arm)
        }

    @property
    def lost_arms(self) -> list[str]:
        """The finished arms whose models were removed."""
        return [arm for arm in self._ended_arms if not self._has_model(arm)]

    @property
    def _ended_arms(self):
        ends = self.events(RunFinished)
        return ends[0].best if ends else {}

    def _has_model(self, arm):
        """Whether an arm's model exists, complete or not."""
        return (self.path / arm).is_dir()

    @property
    def has_ended(self) -> bool:
        """Whether the log has the end of the run."""
        return bool(self.events(RunFinished))

    @property
    def seconds(self) -> float:
        """Seconds spent in finished epochs, over all starts of the run."""
        return sum(event.seconds for event in self.events(Epoch))


class Run(RunDirectory):
    """A run's directory, with its config."""

    @functools.cached_property
    def config(self):
        """The run's config."""
        return ADAPTER.validate_python(read_config(self.path))


def _is_step(path):
    """Whether a path is the directory of a step inside a run directory."""
    return path.name.endswith("_run") and (path / CONFIG).exists()


@contextlib.contextmanager
def open_run(path, settings: dict, kind=None, distribution=ONE_DEVICE):
    """Opens a new or a started run directory and locks it."""
    need_tensorflow("A run in a directory")
    path = pathlib.Path(path)
    distribution.require_same("settings", without_changeable(settings))
    replicas = distribution.shares.total
    if not distribution.is_chief:
        distribution.barrier()  # the chief opens it
        _check_settings(path, settings, kind, replicas)
        yield RunDirectory(path, is_read_only=True, replicas=replicas)
        distribution.barrier()  # the chief finished it
        return
    _require_own(path)
    new = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    busy = (
        f"Another process is working on the run in {path}. Wait for it, or "
        "choose another --run-dir."
    )
    with locked(path / LOCK, busy):
        try:
            _check_settings(path, settings, kind, replicas)
            run = RunDirectory(path, replicas=replicas)
            if not run.is_finished:
                remove_left_over(path)  # of a killed process
            distribution.barrier()
            yield run
        except BaseException:
            if new:
                _remove_if_empty(*new)
            raise
        distribution.barrier()


def _require_own(path):
    """Rejects a directory without settings that is not empty."""
    if not path.is_dir() or (path / CONFIG).exists():
        return
    unexpected = sorted(
        item.name
        for item in path.iterdir()
        if item.name not in (LOCK, INPUTS)
        and not _is_step(item)
        and not is_left_over(item)
    )
    if unexpected:
        raise UsageError(
            f"{path} has no {CONFIG} and is not empty. Received a directory "
            f"with: {unexpected[:5]}."
        )


def _remove_if_empty(path, *parents):
    """Removes a run directory without settings, and empty new parents."""
    with contextlib.suppress(OSError):  # another process may use it by now
        if [item.name for item in path.iterdir()] == [LOCK]:
            (path / LOCK).unlink()
            for directory in (path, *parents):
                directory.rmdir()


def is_finished(path) -> bool:
    """Returns whether a directory holds a finished run."""
    return RunDirectory(pathlib.Path(path)).is_finished


def read_config(path) -> dict:
    """Returns the settings in a run directory or a JSON file, as a dict."""
    config = _read_config_file(path)
    config.pop(PROVENANCE, None)
    config.pop(REPLICAS, None)
    return config


def read_settings(path, kind):
    """The settings in a run directory or a JSON file, as a dataclass."""
    return from_dict(kind, read_config(path))


def read_replicas(path) -> int | None:
    """Returns a run's number of replicas, or `None` if it has not noted one."""
    return _read_config_file(path).get(REPLICAS)


def _read_config_file(path):
    path = pathlib.Path(path)
    file = path / CONFIG if path.is_dir() else path
    what = "the settings of a run, its config.json"
    return read_json(file, what)


def write_json(path: pathlib.Path, value) -> None:
    """Writes a JSON file atomically."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def _check_settings(path, settings, kind, replicas):
    """Rejects a directory with other settings or another number of replicas."""
    if not (path / CONFIG).exists():
        return
    there = read_config(path)
    if kind is not None:
        # The differences below show what cannot be read.
        with contextlib.suppress(UsageError):
            there = to_dict(read_settings(path, kind))
    found = differences(without_changeable(there), without_changeable(settings))
    if found:
        listed = "\n".join(f"  {line}" for line in found)
        raise UsageError(
            f"The run in {path} was made with other settings (there -> here):\n"
            f"{listed}\nPass the same settings, or choose another --run-dir."
        )
    noted = read_replicas(path) or 1
    if noted != replicas:
        raise UsageError(
            f"The run in {path} was begun with {noted} replicas. Received: "
            f"{replicas}."
        )
