"""Checkpoints of a stage: saving, restoring and removing them."""

import dataclasses
import logging
import math
import pathlib

import h5py
import keras
import numpy as np

from kdkit.backends import tf
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.io.disk import writing
from kdkit.io.files import digest
from kdkit.io.files import fits_own_digest
from kdkit.io.files import flush
from kdkit.io.files import rename
from kdkit.io.files import reserve
from kdkit.io.files import with_own_digest
from kdkit.io.files import without_digest
from kdkit.io.hdf5 import hdf5_problem
from kdkit.io.reading import read_json
from kdkit.models import stored_size
from kdkit.runs.directory import write_json
from kdkit.settings import from_dict
from kdkit.settings import to_dict
from kdkit.taps import remember_optimizers
from kdkit.training.callbacks import SEED_STATE

_log = logging.getLogger(__name__)

STATE = "state.json"


@dataclasses.dataclass(frozen=True)
class Position:
    """A position from which a stage can continue.

    Args:
        epoch: int. The number of finished epochs.
        step: int. The finished steps of the next epoch. Defaults to `0`.
        seconds: float. The seconds of these steps. Defaults to `0.0`.
        best_epoch: int or `None`. The epoch with the best dev metric so far.
        best_value: float or `None`. That metric's value.
        best_loss: float or `None`. The dev loss after that epoch, which
            decides between epochs with the same value.
    """

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    best_epoch: int | None = None
    best_value: float | None = None
    best_loss: float | None = None

    @property
    def name(self) -> str:
        """The name of the position's checkpoint.

        >>> Position(2).name, Position(2, step=30).name
        ('epoch-2', 'epoch-2-step-30')
        """
        within = f"-step-{self.step}" if self.step else ""
        return f"epoch-{self.epoch}{within}"

    def __str__(self):
        """The position in words.

        >>> print(Position(2)), print(Position(2, step=30))
        after epoch 2
        after step 30 of epoch 3
        (None, None)
        """
        if self.step:
            return f"after step {self.step} of epoch {self.epoch + 1}"
        return f"after epoch {self.epoch}"


@dataclasses.dataclass(frozen=True)
class StageState:
    """The checkpoints of a stage. `state.json` is written after their files.

    Args:
        kept: tuple of `Position`s with a checkpoint, the newest last.
        digests: dict from the name of a checkpoint to its file's checksum.
        is_finished: bool. Whether the stage is finished.
    """

    kept: tuple[Position, ...] = ()
    digests: dict[str, str] = dataclasses.field(default_factory=dict)
    is_finished: bool = False

    @property
    def newest(self) -> Position:
        """The newest position; the stage's beginning without checkpoints."""
        return self.kept[-1] if self.kept else Position()


def write_state(file: pathlib.Path, state: StageState) -> None:
    """Writes a `state.json` that contains its own checksum.

    Args:
        file: `pathlib.Path`. An existing file is replaced.
        state: `StageState`.

    Raises:
        RunError: if the disk is full or not writable.
    """
    write_json(file, with_own_digest(to_dict(state)))


def read_state(file: pathlib.Path) -> StageState:
    """Reads a `state.json`.

    A file of an earlier version, without a checksum, is not verified.

    Args:
        file: `pathlib.Path`.

    Raises:
        UsageError: (a `ValueError`) if the file is not a `state.json`.
        RunError: if the file does not match its checksum.
    """
    values = read_json(file, "the state of a stage", _of_state)
    if not fits_own_digest(values):
        raise RunError(
            f"Cannot continue from {file}: its content does not match its "
            f"checksum. {made_again(file.parent)}"
        )
    return from_dict(StageState, _state_alone(values))


def made_again(folder: pathlib.Path) -> str:
    """Returns how to repeat a stage that has a damaged file.

    Args:
        folder: `pathlib.Path` of its checkpoints.
    """
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
    """The metrics of an epoch so far, and the states of random generators.

    Args:
        values: tuple of arrays, one for each variable. The first axis is the
            replica.
    """

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
        """Assigns the state to a model that has its variables.

        On another number of devices, the first device gets the sums.

        Raises:
            RunError: if the model has other variables.
        """
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
        """Adds the state to a file of weights.

        Args:
            file: path of an HDF5 file.
        """
        with h5py.File(file, "a") as content:
            group = content.create_group(GROUP)
            for number, value in enumerate(self.values):
                group.create_dataset(str(number), data=value)

    @classmethod
    def read(cls, file) -> "RunningState":
        """Reads the state that `write` added to a file.

        Raises:
            RunError: if the state is missing or damaged.
        """
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
    """Saves and restores the training of one stage.

    Checkpoints contain the student, projections, optimiser and running state
    for the last epochs and the last position within an epoch, and the student's
    weights for the best epoch and the epochs to average. They never contain a
    teacher.

    Args:
        directory: `pathlib.Path`. Created when a checkpoint is saved.
        averaged_epochs: tuple of ints. The epochs to average. Defaults to `()`.
        keep: int. The number of last epochs whose checkpoints are kept. Above
            1, these and the best one stay after the stage is finished.
            Defaults to `1`.
    """

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
        self._written = set()  # names of files that this process wrote
        self._read_state()
        remember_optimizers()

    def _read_state(self):
        """Reads the state again, as another process may have written it."""
        if (self._directory / STATE).exists():
            self.state = read_state(self._directory / STATE)

    def begin(self) -> Position:
        """Returns the position of the newest checkpoint that exists.

        Raises:
            RunError: if that checkpoint is damaged.
        """
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
        """Saves a finished epoch; returns whether it is the best so far.

        Args:
            trainer: the model that is trained, a `Distiller` or the student.
            student: the student inside the trainer.
            epoch: int. The number of finished epochs.
            value: float. The dev metric after this epoch.
            larger_is_better: bool. Defaults to `True`.
            loss: float. The dev loss, which decides between equal values: a
                collapsed student has the same accuracy after many epochs.
        """
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
        """Saves a position within the epoch after the last finished one.

        Args:
            trainer: the model that is trained.
            step: int. The finished steps of the epoch.
            seconds: float. The seconds of these steps.
            running: `RunningState` after these steps.
        """
        position = dataclasses.replace(
            self.state.newest, step=step, seconds=seconds
        )
        self._note(position, self._save(trainer, position.name, running))

    def restore(self, trainer) -> RunningState | None:
        """Loads the newest checkpoint; returns its state within an epoch.

        Args:
            trainer: the model that is trained.
        """
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
        elif name not in self._written and (problem := hdf5_problem(file)):
            found = f"it cannot be opened ({problem})"
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
        self._written.add(name)
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
