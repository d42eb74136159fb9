"""Run directories: config, event log, and one process at a time."""

import contextlib
import json
import pathlib
import time
import warnings

from pydantic import ValidationError

from kdkit.backends import need_tensorflow
from kdkit.config.differences import differing_fields
from kdkit.config.runs import ADAPTER, AnyRun
from kdkit.errors import RunError, UsageError
from kdkit.io.files import (
    is_left_over,
    remove_left_over,
    with_own_digest,
    write_text,
)
from kdkit.io.locks import append_line, locked
from kdkit.io.reading import read_json
from kdkit.runs.events import Best, Epoch, Event, RunFinished, read_log
from kdkit.settings import in_words
from kdkit.training.distribution import ONE_DEVICE

CONFIG, LOCK = "config.json", ".lock"
EVENTS, CHECKPOINTS = "metrics.jsonl", "checkpoints"
INPUTS = "inputs"  # models and data that a call had in memory
# What config.json has next to the config.
PROVENANCE, REPLICAS = "provenance", "replicas"
REQUESTED, FREE = "requested", "checkpoint_minutes"
# Fields with models, which are compared by content.
MODELS = ("teacher", "pretrained", "checkpoint", "copy_from", "model")


class Run:
    """The directory of one run: config, log, checkpoints and models.

    Args:
        path: string or path of a run directory.
        is_read_only: bool. Whether this process writes nothing, because another
            one does. Defaults to `False`.
        replicas: int. The number of devices that train. Defaults to `1`.

    Example:

    ```python
    run = kdkit.run(config, "runs/tinybert")
    print(run.config.recipe, run.models["student"])
    ```
    """

    def __init__(self, path, is_read_only: bool = False, replicas: int = 1):
        self.path = pathlib.Path(path)
        self.is_read_only = is_read_only
        self.replicas = replicas

    @property
    def saved(self) -> dict:
        """The content of `config.json`: the config, and what made the run."""
        return read_json(self.path / CONFIG, "the config of a run")

    @property
    def config(self) -> AnyRun:
        """The config in `config.json`, with the values that were resolved."""
        tree = self.saved
        for name in (PROVENANCE, REPLICAS):
            tree.pop(name, None)
        try:
            return ADAPTER.validate_python(tree)
        except ValidationError as error:
            raise UsageError(f"{self.path}: {in_words(error, tree)}") from error

    @property
    def models(self) -> dict[str, pathlib.Path]:
        """The directories of the finished models, by role."""
        return {arm: self.path / arm for arm in self.made_arms}

    def write_config(self, config: AnyRun, provenance: dict) -> None:
        """Writes `config.json`; what made the run stays as it was noted."""
        if self.is_read_only:
            return
        file, noted = self.path / CONFIG, {PROVENANCE: provenance}
        if self.replicas > 1:
            noted = {REPLICAS: self.replicas, **noted}
        if file.exists():
            there = self.saved
            noted = {name: there[name] for name in noted if name in there}
        text = json.dumps(config.model_dump(mode="json") | noted, indent=2)
        if not file.exists() or file.read_text("utf-8") != f"{text}\n":
            write_text(file, f"{text}\n")

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

    def log_once(self, event: Event) -> None:
        """Appends an event, unless there is one of its kind."""
        if not self.events(type(event)):
            self.log(event)

    def note(self, event: Event) -> bool:
        """Logs an event of a verb that reads the run; warns if it cannot."""
        try:
            self.log(event)
        except (OSError, RunError) as error:  # such as a read-only disk
            warnings.warn(f"Not logged in the run: {error}", stacklevel=2)
            return False
        return True

    def events(self, kind: type[Event] = Event, **fields) -> list:
        """Returns the last logged event of each key.

        Args:
            kind: class from `kdkit.runs.events`. Defaults to all kinds.
            **fields: values that fields of the events have.
        """
        path = self.path / EVENTS
        if not path.exists():
            return []
        found, _ = read_log(path)
        return [
            event
            for event in found
            if isinstance(event, kind)
            and all(getattr(event, name) == one for name, one in fields.items())
        ]

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of a finished run's student, or of its only model."""
        best = self._ended_arms
        return best.get("student", next(iter(best.values()))).metrics

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
            if (self.path / arm).is_dir()  # complete or not
        }

    @property
    def lost_arms(self) -> list[str]:
        """The finished arms whose models were removed."""
        made = self.made_arms
        return [arm for arm in self._ended_arms if arm not in made]

    @property
    def _ended_arms(self):
        ends = self.events(RunFinished)
        return ends[0].best if ends else {}

    @property
    def has_ended(self) -> bool:
        """Whether the log has the end of the run."""
        return bool(self.events(RunFinished))

    @property
    def seconds(self) -> float:
        """Seconds spent in finished epochs, over all starts of the run."""
        return sum(event.seconds for event in self.events(Epoch))


def _is_step(path):
    """Whether a path is the directory of a step inside a run directory."""
    return path.name.endswith("_run") and (path / CONFIG).exists()


@contextlib.contextmanager
def open_run(path, config: AnyRun, distribution=ONE_DEVICE):
    """Opens a new or a started run directory and locks it.

    Yields:
        Tuple of the `Run` and its config. A run that continues has the values
        that were resolved when it began.
    """
    need_tensorflow("A run in a directory")
    path = pathlib.Path(path)
    distribution.require_same("settings", comparable(config))
    replicas = distribution.shares.total
    if not distribution.is_chief:
        distribution.barrier()  # the chief opens it
        run = Run(path, is_read_only=True, replicas=replicas)
        yield run, continued(run, config)
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
            run = Run(path, replicas=replicas)
            config = continued(run, config)
            if not run.is_finished:
                remove_left_over(path)  # of a killed process
            distribution.barrier()
            yield run, config
        except BaseException:
            if new:
                _remove_if_empty(*new)
            raise
        distribution.barrier()


def _require_own(path):
    """Rejects a directory without config that is not empty."""
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
    """Removes a run directory without config, and empty new parents."""
    with contextlib.suppress(OSError):  # another process may use it by now
        if [item.name for item in path.iterdir()] == [LOCK]:
            (path / LOCK).unlink()
            for directory in (path, *parents):
                directory.rmdir()


def continued(run: Run, config: AnyRun) -> AnyRun:
    """Returns a config with the values that its run resolved at its start.

    Raises:
        UsageError: (a `ValueError`) if the run was made with other fields or
            another number of replicas.
    """
    if not (run.path / CONFIG).exists():
        return config
    begun = run.config
    as_requested = with_values(begun, begun.requested, {})
    wanted = comparable(config)
    found = [
        differing_fields(there, wanted)
        for there in (comparable(as_requested), comparable(begun))
        if json.dumps(there) != json.dumps(wanted)  # in their order
    ]
    if len(found) > 1:
        listed = "\n".join(
            f"  {field}: {value} -> {ours}"
            for field, (value, ours) in found[0].items()
        )
        listed = listed or "  the order of stages or objectives differs"
        raise UsageError(
            f"The run in {run.path} was made with other settings (there -> "
            f"here):\n{listed}\nPass the same settings, or choose another "
            "--run-dir."
        )
    noted = run.saved.get(REPLICAS, 1)
    if noted != run.replicas:
        raise UsageError(
            f"The run in {run.path} was begun with {noted} replicas. Received: "
            f"{run.replicas}."
        )
    saved = begun.model_dump(mode="json")
    values = {path: value_at(saved, path) for path in begun.requested}
    return with_values(config, values, begun.requested)


def with_values(config: AnyRun, values: dict, requested: dict) -> AnyRun:
    """Returns a config with the values of some dotted paths.

    Args:
        config: a run's config.
        values: dict from dotted path to a value as in JSON.
        requested: dict of the values before, for the field `requested`.
    """
    tree = config.model_dump(mode="json")
    for path, value in values.items():
        parent, _, name = path.rpartition(".")
        value_at(tree, parent)[name] = value
    return ADAPTER.validate_python(tree | {REQUESTED: requested})


def value_at(tree: dict, path: str):
    """Returns the value at a dotted path of nested dicts."""
    for name in filter(None, path.split(".")):
        tree = tree[name]
    return tree


def comparable(config: AnyRun) -> dict:
    """Returns the fields of a config that may not change in its run."""
    return _comparable(config.model_dump(mode="json"))


def _comparable(value, is_model=False):
    """A value without the fields that may change, and places of models."""
    if isinstance(value, list):
        return [_comparable(one, is_model) for one in value]
    if isinstance(value, dict):
        return {
            name: _comparable(one, name in MODELS)
            for name, one in value.items()
            if name not in (FREE, REQUESTED)
        }
    is_text = is_model and isinstance(value, str)
    return "a path" if is_text and pathlib.Path(value).is_absolute() else value
