"""Checkpoints of a stage: saving, restoring and removing them."""

import dataclasses
import logging
import math
import pathlib

import h5py
import keras
import numpy as np

from kdkit.backends import tf
from kdkit.errors import RunError, UsageError, shortened
from kdkit.io.disk import writing
from kdkit.io.files import (
    digest,
    fits_own_digest,
    flush,
    rename,
    reserve,
    with_own_digest,
    without_digest,
)
from kdkit.io.reading import read_json
from kdkit.models import stored_size
from kdkit.runs.directory import write_json
from kdkit.settings import from_dict, to_dict
from kdkit.taps import remember_optimizers
from kdkit.training.callbacks import SEED_STATE

_log = logging.getLogger(__name__)

STATE = "state.json"


@dataclasses.dataclass(frozen=True)
class Position:
    """A position from which a stage can continue."""

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    best_epoch: int | None = None
    best_value: float | None = None
    best_loss: float | None = None

    @property
    def name(self) -> str:
        """The name of the position's checkpoint."""
        within = f"-step-{self.step}" if self.step else ""
        return f"epoch-{self.epoch}{within}"

    def __str__(self):
        """The position in words."""
        if self.step:
            return f"after step {self.step} of epoch {self.epoch + 1}"
        return f"after epoch {self.epoch}"


@dataclasses.dataclass(frozen=True)
class StageState:
    """The checkpoints of a stage. `state.json` is written after their files."""

    kept: tuple[Position, ...] = ()
    digests: dict[str, str] = dataclasses.field(default_factory=dict)
    is_finished: bool = False

    @property
    def newest(self) -> Position:
        """The newest position; the stage's beginning without checkpoints."""
        return self.kept[-1] if self.kept else Position()


def write_state(file: pathlib.Path, state: StageState) -> None:
    """Writes a `state.json` that contains its own checksum."""
    write_json(file, with_own_digest(to_dict(state)))


def read_state(file: pathlib.Path) -> StageState:
    """Reads a `state.json`."""
    values = read_json(file, "the state of a stage", _of_state)
    if not fits_own_digest(values):
        raise RunError(
            f"Cannot continue from {file}: its content does not match its "
            f"checksum. {made_again(file.parent)}"
        )
    return from_dict(StageState, _state_alone(values))


def made_again(folder: pathlib.Path) -> str:
    """Returns how to repeat a stage that has a damaged file."""
    return (
        f"Remove the folder {folder}, and the same command repeats this stage "
        "from its beginning."
    )


def _state_alone(values):
    return without_digest(values)


def _of_state(values):
    """A mistake in the state of a stage, or `None`."""
    rest = _state_alone(values)
    try:
        from_dict(StageState, rest)
    except UsageError as error:
        return str(error).removesuffix(".")
    return None


GROUP = "kdkit_running_state"  # added to Keras' own groups in a weights file


@dataclasses.dataclass(frozen=True)
class RunningState:
    """The metrics of an epoch so far, and the states of random generators."""

    values: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, trainer) -> "RunningState":
        """Reads the state of a compiled model that has made a step."""
        return cls(
            tuple(
                np.stack([part.numpy() for part in _parts(variable)])
                for variable in _variables(trainer)
            )
        )

    def restore(self, trainer) -> None:
        """Assigns the state to a model that has its variables."""
        variables = _variables(trainer)
        shapes = [value.shape[1:] for value in self.values]
        expected = [tuple(variable.shape) for variable in variables]
        if shapes != expected:
            raise RunError(
                "The checkpoint has a model with other metrics or random "
                f"layers. Expected variables of shapes {expected}. Received: "
                f"{shapes}. Continue with the version of kdkit and Keras that "
                "wrote it."
            )
        for variable, values in zip(variables, self.values, strict=True):
            parts = _parts(variable)
            if len(parts) != len(values):
                values = _divided(values, len(parts), _is_seed(variable))
            for part, value in zip(parts, values, strict=True):
                part.assign(value)

    def write(self, file) -> None:
        """Adds the state to a file of weights."""
        with h5py.File(file, "a") as content:
            group = content.create_group(GROUP)
            for number, value in enumerate(self.values):
                group.create_dataset(str(number), data=value)

    @classmethod
    def read(cls, file) -> "RunningState":
        """Reads the state that `write` added to a file."""
        try:
            size = pathlib.Path(file).stat().st_size
            with h5py.File(file, "r") as content:
                group = _within(content, GROUP)
                parts = [
                    _within(group, str(number)) for number in range(len(group))
                ]
                # A false size would only waste memory.
                if sum(part.nbytes for part in parts) > size:
                    raise ValueError("its size does not match its bytes")
                values = tuple(part[()] for part in parts)
            if not all(
                isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
                for value in values
            ):
                raise ValueError("it contains other data than numbers")
        except Exception as error:  # h5py raises many types of errors
            raise RunError(
                f"Cannot continue from {file}: it has no state of metrics and "
                f"random layers ({shortened(str(error))}). Remove it, and the "
                "same command continues from the checkpoint before."
            ) from error
        return cls(values)


def _within(group, name):
    """A group or an array in this file, never a link to another file."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"{name!r} is missing, or a link to another place")
    found = group[name]
    if isinstance(found, h5py.Dataset) and (found.external or found.is_virtual):
        raise ValueError(f"{name!r} is a link to another place")
    return found


def _variables(trainer):
    """The variables of metrics, then the seeds, always in the same order."""
    return [
        *trainer.metrics_variables,
        *(variable for variable in trainer.variables if _is_seed(variable)),
    ]


def _is_seed(variable):
    return variable.name == SEED_STATE


def _parts(variable):
    """The variable of each replica."""
    strategy = tf.distribute.get_strategy()
    value = variable.value
    if isinstance(value, tf.distribute.DistributedValues):
        strategy = value.distribute_strategy
    return strategy.experimental_local_results(value)


def _divided(values, count, is_seed):
    """The replicas' values for another number of replicas."""
    if is_seed:
        return np.repeat(values[:1], count, axis=0)
    divided = np.zeros((count, *values.shape[1:]), values.dtype)
    divided[0] = values.sum(axis=0)
    return divided


SUFFIX = ".weights.h5"
UNFINISHED = "unfinished"


class StageCheckpoints:
    """Saves and restores the training of one stage."""

    def __init__(
        self,
        directory: pathlib.Path,
        averaged_epochs: tuple[int, ...] = (),
        keep: int = 1,
    ):
        self._directory = directory
        self._averaged_epochs = averaged_epochs
        self._keep = keep
        self.state = StageState()
        self._read_state()
        remember_optimizers()

    def _read_state(self):
        """Reads the state again, as another process may have written it."""
        if (self._directory / STATE).exists():
            self.state = read_state(self._directory / STATE)

    def begin(self) -> Position:
        """Returns the position of the newest checkpoint that exists."""
        self._warn_of_lost_state()
        kept = list(self.state.kept)
        while kept and not self._file(kept[-1].name).exists():
            gone = self._file(kept.pop().name)
            _log.warning(f"{gone} is missing: continuing without it.")
        self.state = dataclasses.replace(self.state, kept=tuple(kept))
        if kept:
            self._check(kept[-1].name)
        return self.state.newest

    def _warn_of_lost_state(self):
        file = self._directory / STATE
        names = {path.name for path in self._directory.glob(f"*{SUFFIX}")}
        if names - {self._file(UNFINISHED).name} and not file.exists():
            _log.warning(
                f"{file} is missing, so the checkpoints in its folder cannot "
                "be used. Repeating this stage from its beginning.",
            )

    def save_epoch(
        self, trainer, student, epoch, value, larger_is_better=True, loss=0.0
    ):
        """Saves a finished epoch; returns whether it is the best so far."""
        before = self.state.newest
        sign = 1 if larger_is_better else -1
        lost = math.inf if before.best_loss is None else before.best_loss
        is_best = before.best_value is None or (
            (sign * value, -loss) > (sign * before.best_value, -lost)
        )
        best = before.best_epoch, before.best_value, before.best_loss
        if is_best:
            # NaN, as for an undefined correlation, is never the best value: the
            # next epoch counts as better, whatever its value.
            best = (
                epoch,
                value if math.isfinite(value) else None,
                loss if math.isfinite(loss) else None,
            )
        position = Position(epoch, 0, 0.0, *best)
        digests = {}
        if is_best:
            digests |= self._save(_weights_only(student), f"best-{epoch}")
        if epoch in self._averaged_epochs:
            digests |= self._save(_weights_only(student), f"averaged-{epoch}")
        digests |= self._save(trainer, position.name)
        self._note(position, digests)
        return is_best

    def save_step(self, trainer, step, seconds, running: RunningState):
        """Saves a position within the epoch after the last finished one."""
        position = dataclasses.replace(
            self.state.newest, step=step, seconds=seconds
        )
        self._note(position, self._save(trainer, position.name, running))

    def restore(self, trainer) -> RunningState | None:
        """Loads the newest checkpoint; returns its state within an epoch."""
        position = self.state.newest
        if position.epoch or position.step:
            self._read(trainer, position.name)
        file = self._file(position.name)
        return RunningState.read(file) if position.step else None

    def load_mean(self, student):
        """Assigns the mean of the weights after `averaged_epochs`."""
        self._read_state()
        model = _weights_only(student)
        sums = [0.0] * len(model.weights)
        for epoch in self._averaged_epochs:
            self._load(model, f"averaged-{epoch}")
            sums = [
                total + weight
                for total, weight in zip(sums, model.get_weights(), strict=True)
            ]
        num_epochs = len(self._averaged_epochs)
        model.set_weights([total / num_epochs for total in sums])

    def finish(self, student, keep_best):
        """Assigns the final weights and marks the stage as finished."""
        if keep_best:
            best = f"best-{self.state.newest.best_epoch}"
            self._load(_weights_only(student), best)
        digests = self._save(_weights_only(student), "final")
        self.state = dataclasses.replace(self.state, is_finished=True)
        self._write_state(digests)

    def restore_final(self, student):
        """Loads the weights at the end of the stage."""
        self._read_state()
        self._load(_weights_only(student), "final")

    def _file(self, name):
        return self._directory / f"{name}{SUFFIX}"

    def _load(self, model, name):
        self._check(name)
        self._read(model, name)

    def _read(self, model, name):
        try:
            model.load_weights(self._file(name))
        except Exception as error:  # h5py and Keras raise many types of errors
            raise self._error(
                name, f"it cannot be loaded ({shortened(str(error))})"
            ) from error

    def _check(self, name):
        """Requires that a file exists and matches its checksum."""
        file = self._file(name)
        known = self.state.digests.get(name)
        if not file.is_file():
            found = "there is no such file"
        elif known is None:
            found = f"{STATE} has no checksum for it"
        elif known != digest(file):
            found = "its content does not match its checksum"
        else:
            return
        raise self._error(name, found)

    def _error(self, name, found):
        file = self._file(name)
        return RunError(
            f"Cannot continue from {file}: {found}. {self._way(name)}"
        )

    def _way(self, name):
        """The fix for a damaged file."""
        earlier = [
            position
            for position in self.state.kept[:-1]
            if self._file(position.name).is_file()
        ]
        if earlier and name == self.state.newest.name:
            return (
                f"Remove it, and the same command continues {earlier[-1]} of "
                "this stage."
            )
        return made_again(self._directory)

    def _save(self, model, name, running=None):
        """Writes a file to the disk; returns its checksum by its name."""
        with writing(self._file(name), "Earlier checkpoints are saved."):
            self._directory.mkdir(parents=True, exist_ok=True)
            temporary = self._file(UNFINISHED)
            temporary.unlink(missing_ok=True)
            # HDF5 ends the process if the disk is full.
            reserve(self._directory, stored_size(model))
            model.save_weights(temporary, overwrite=True)
            if running is not None:
                running.write(temporary)
            found = digest(temporary)
            flush(temporary)
            rename(temporary, self._file(name))
        return {name: found}

    def _note(self, position, digests):
        """Makes a position the newest, and removes old positions."""
        kept = [old for old in self.state.kept if not old.step]
        if position.step:
            kept = [*kept[-self._keep :], position]
        else:
            kept = [*kept, position][-self._keep :]
        self.state = dataclasses.replace(self.state, kept=tuple(kept))
        self._write_state(digests)

    def _write_state(self, digests):
        """Writes the state with new files' checksums, and removes old files."""
        wanted = self._wanted()
        self.state = dataclasses.replace(
            self.state,
            digests={
                name: value
                for name, value in {**self.state.digests, **digests}.items()
                if name in wanted
            },
        )
        write_state(self._directory / STATE, self.state)
        self.clean()

    def clean(self):
        """Removes the files that are not in the state."""
        wanted = self._wanted()
        for file in self._directory.glob(f"*{SUFFIX}"):
            if file.name.removesuffix(SUFFIX) not in wanted:
                file.unlink()

    def _wanted(self):
        """The names of the files in the state."""
        kept = {position.name for position in self.state.kept}
        best = {f"best-{position.best_epoch}" for position in self.state.kept}
        if not self.state.is_finished:
            averaged = {f"averaged-{epoch}" for epoch in self._averaged_epochs}
            return kept | best | averaged
        return {"final", *(kept | best if self._keep > 1 else ())}


def _weights_only(model):
    """The model's layers in a model without an optimiser, for saving."""
    # With a fixed name, because the name is in the file. Keras' default name
    # contains a number of the process.
    return keras.Model(model.input, model.output, name="weights")
