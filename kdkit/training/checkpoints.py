"""Checkpoints of a stage: saving, restoring and removing them."""

import dataclasses
import logging
import math
import pathlib

import h5py
import keras
import numpy as np

from kdkit.errors import RunError
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
from kdkit.late import tf
from kdkit.models.saving import stored_size
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
    values = read_json(file, "the state of a stage")
    if not fits_own_digest(values):
        raise damaged(file)
    return from_dict(StageState, without_digest(values))


def damaged(file: pathlib.Path) -> RunError:
    """Returns the error for a file that was changed."""
    return RunError(
        f"{file} does not match its checksum. Remove the folder {file.parent}, "
        "and the same command repeats this stage."
    )


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
        with h5py.File(file, "r") as content:
            group = content[GROUP]
            return cls(
                tuple(group[str(number)][()] for number in range(len(group)))
            )


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

    def __init__(self, directory: pathlib.Path):
        self._directory = directory
        self.state = StageState()
        self._read_state()
        remember_optimizers()

    def _read_state(self):
        """Reads the state again, as another process may have written it."""
        if (self._directory / STATE).exists():
            self.state = read_state(self._directory / STATE)

    def begin(self) -> Position:
        """Returns the position of the newest checkpoint."""
        if self.state.kept:
            self._check(self.state.newest.name)
        return self.state.newest

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
            trainer.load_weights(self._file(position.name))
        file = self._file(position.name)
        return RunningState.read(file) if position.step else None

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
        model.load_weights(self._file(name))

    def _check(self, name):
        """Requires that a file matches its checksum."""
        if self.state.digests.get(name) != digest(self._file(name)):
            raise damaged(self._file(name))

    def _save(self, model, name, running=None):
        """Writes a file to the disk; returns its checksum by its name."""
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
        kept = (position,)
        if position.step:
            kept = *(old for old in self.state.kept if not old.step), position
        self.state = dataclasses.replace(self.state, kept=kept)
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
        if self.state.is_finished:
            return {"final"}
        kept = {position.name for position in self.state.kept}
        return kept | {f"best-{self.state.newest.best_epoch}"}


def _weights_only(model):
    """The model's layers in a model without an optimiser, for saving."""
    # With a fixed name, because the name is in the file. Keras' default name
    # contains a number of the process.
    return keras.Model(model.input, model.output, name="weights")
