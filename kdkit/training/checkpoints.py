"""Checkpoints of a stage: its best and its last weights, and what is kept."""

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
    """Where a stage can go on.

    Args:
        epoch: int. The number of finished epochs.
        step: int. Steps of the next one that are done. Defaults to `0`.
        seconds: float. The time that they took. Defaults to `0.0`.
        best_epoch: int or `None`. The epoch with the best dev metric so far.
        best_value: float or `None`. That metric.
    """

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    best_epoch: int | None = None
    best_value: float | None = None

    @property
    def name(self) -> str:
        """The name of its checkpoint.

        >>> Position(2).name, Position(2, step=30).name
        ('epoch-2', 'epoch-2-step-30')
        """
        within = f"-step-{self.step}" if self.step else ""
        return f"epoch-{self.epoch}{within}"

    def __str__(self):
        """As people say it.

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
    """What is kept of a stage. `state.json` is written last, so it is true.

    Args:
        kept: tuple of `Position`s with a checkpoint, the newest last.
        digests: dict from the name of a checkpoint to the digest of its file.
        is_finished: bool. Whether the stage is done.
    """

    kept: tuple[Position, ...] = ()
    digests: dict[str, str] = dataclasses.field(default_factory=dict)
    is_finished: bool = False

    @property
    def newest(self) -> Position:
        """Where the stage stands; at its beginning if nothing is kept."""
        return self.kept[-1] if self.kept else Position()


def write_state(file: pathlib.Path, state: StageState) -> None:
    """Writes a `state.json`, with its own digest.

    Args:
        file: `pathlib.Path`. What is there is replaced.
        state: `StageState`.

    Raises:
        RunError: where the disk does not take it.
    """
    write_json(file, with_own_digest(to_dict(state)))


def read_state(file: pathlib.Path) -> StageState:
    """Returns what is in a `state.json`.

    One of a version that wrote no digest in it is read as it stands.

    Args:
        file: `pathlib.Path`.

    Raises:
        UsageError: (a `ValueError`) if it is none.
        RunError: if it is not what was written.
    """
    values = read_json(file, "the state of a stage", _of_state)
    if not fits_own_digest(values):
        raise RunError(
            f"Cannot go on with {file}: its content is not what was written, "
            f"by its own digest. {made_again(file.parent)}"
        )
    return from_dict(StageState, _state_alone(values))


def made_again(folder: pathlib.Path) -> str:
    """Says how a stage is made again, of whose files one is damaged.

    Args:
        folder: `pathlib.Path` of its checkpoints.
    """
    return (
        f"Remove the folder {folder}, and the same command makes this stage "
        "again from its beginning."
    )


def _state_alone(values):
    return without_digest(values)


def _of_state(values):
    """What is wrong with the state of a stage, or `None`."""
    rest = _state_alone(values)
    try:
        from_dict(StageState, rest)
    except UsageError as error:
        return str(error).removesuffix(".")
    return None


GROUP = "kdkit_running_state"  # beside what Keras writes into a file of weights


@dataclasses.dataclass(frozen=True)
class RunningState:
    """The metrics of an epoch so far, and the states of random generators.

    Args:
        values: tuple of arrays, one for each variable, whose first axis are
            the replicas.
    """

    values: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, trainer) -> "RunningState":
        """Reads it from a compiled model that made a step."""
        return cls(
            tuple(
                np.stack([part.numpy() for part in _parts(variable)])
                for variable in _variables(trainer)
            )
        )

    def restore(self, trainer) -> None:
        """Gives it to a model whose variables are made.

        On another number of devices the first one gets the sums.

        Raises:
            RunError: if the model has other variables.
        """
        variables = _variables(trainer)
        shapes = [value.shape[1:] for value in self.values]
        expected = [tuple(variable.shape) for variable in variables]
        if shapes != expected:
            raise RunError(
                "The checkpoint is of a model with other metrics or random "
                f"layers. Expected variables of shapes {expected}. Received: "
                f"{shapes}. Go on with the version of kdkit and Keras that "
                "wrote it."
            )
        for variable, values in zip(variables, self.values, strict=True):
            parts = _parts(variable)
            if len(parts) != len(values):
                values = _divided(values, len(parts), _is_seed(variable))
            for part, value in zip(parts, values, strict=True):
                part.assign(value)

    def write(self, file) -> None:
        """Adds it to a file of weights.

        Args:
            file: path of an HDF5 file.
        """
        with h5py.File(file, "a") as content:
            group = content.create_group(GROUP)
            for number, value in enumerate(self.values):
                group.create_dataset(str(number), data=value)

    @classmethod
    def read(cls, file) -> "RunningState":
        """Returns what `write` added to a file.

        Raises:
            RunError: if it is not there as it was written.
        """
        try:
            size = pathlib.Path(file).stat().st_size
            with h5py.File(file, "r") as content:
                group = _within(content, GROUP)
                parts = [
                    _within(group, str(number)) for number in range(len(group))
                ]
                # What says that it is larger would take memory for nothing.
                if sum(part.nbytes for part in parts) > size:
                    raise ValueError("it says that it has more than its bytes")
                values = tuple(part[()] for part in parts)
            if not all(
                isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
                for value in values
            ):
                raise ValueError("it has something else than numbers")
        except Exception as error:  # h5py raises many kinds
            raise RunError(
                f"Cannot go on with {file}: it has no state of metrics and "
                f"random layers ({shortened(str(error))}). Remove it, and the "
                "same command goes on from the one before."
            ) from error
        return cls(values)


def _within(group, name):
    """A group or numbers that are in this file, and not in another one."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"{name!r} is not in it, or a link to another place")
    found = group[name]
    if isinstance(found, h5py.Dataset) and (found.external or found.is_virtual):
        raise ValueError(f"{name!r} is a link to another place")
    return found


def _variables(trainer):
    """Metrics first, then seeds, in an order that is always the same."""
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
    """The values of replicas for another number of them."""
    if is_seed:
        return np.repeat(values[:1], count, axis=0)
    divided = np.zeros((count, *values.shape[1:]), values.dtype)
    divided[0] = values.sum(axis=0)
    return divided


SUFFIX = ".weights.h5"
UNFINISHED = "unfinished"


class StageCheckpoints:
    """Saves and restores the training of one stage.

    Holds the last epochs and the last position within an epoch (student,
    projections, optimiser, running state), and the student's weights of the
    best epoch and of those to average. Never a teacher.

    Args:
        directory: `pathlib.Path`, made when something is saved.
        averaged_epochs: tuple of ints. The epochs whose mean is asked for.
            Defaults to `()`.
        keep: int. How many of the last epochs are kept. Above 1 these and the
            best one stay when the stage is finished. Defaults to `1`.
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
        self._written = set()  # names of files that this process made
        self._read_state()
        remember_optimizers()

    def _read_state(self):
        """Sees what is kept; of several processes, one of them writes it."""
        if (self._directory / STATE).exists():
            self.state = read_state(self._directory / STATE)

    def begin(self) -> Position:
        """Returns where to go on: after the newest checkpoint that is there.

        Raises:
            RunError: if it is not as it was written.
        """
        self._tell_of_lost_state()
        kept = list(self.state.kept)
        while kept and not self._file(kept[-1].name).exists():
            gone = self._file(kept.pop().name)
            _log.warning(f"{gone} is not there: going on without it.")
        self.state = dataclasses.replace(self.state, kept=tuple(kept))
        if kept:
            self._check(kept[-1].name)
        return self.state.newest

    def _tell_of_lost_state(self):
        file = self._directory / STATE
        names = {path.name for path in self._directory.glob(f"*{SUFFIX}")}
        if names - {self._file(UNFINISHED).name} and not file.exists():
            _log.warning(
                f"{file} is not there, which says what the checkpoints beside "
                "it are: making this stage from its beginning, without them.",
            )

    def save_epoch(self, trainer, student, epoch, value, larger_is_better=True):
        """Saves a finished epoch; returns whether it is the best so far.

        Args:
            trainer: the model that is trained, a `Distiller` or the student.
            student: the student in it.
            epoch: int. The number of finished epochs.
            value: float. The dev metric after this epoch.
            larger_is_better: bool. Defaults to `True`.
        """
        before = self.state.newest
        sign = 1 if larger_is_better else -1
        is_best = before.best_value is None or (
            sign * value > sign * before.best_value
        )
        best = before.best_epoch, before.best_value
        if is_best:
            # What is not a number (an undefined correlation, say) is no best
            # value: the next epoch is the better one, whatever it has.
            best = epoch, value if math.isfinite(value) else None
        position = Position(epoch, best_epoch=best[0], best_value=best[1])
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
            step: int. Steps of the epoch that are done.
            seconds: float. The time that they took.
            running: `RunningState` after them.
        """
        position = dataclasses.replace(
            self.state.newest, step=step, seconds=seconds
        )
        self._note(position, self._save(trainer, position.name, running))

    def restore(self, trainer) -> RunningState | None:
        """Loads where the stage stands; returns its state within an epoch.

        Args:
            trainer: the model that is trained.
        """
        position = self.state.newest
        if position.epoch or position.step:
            self._read(trainer, position.name)
        file = self._file(position.name)
        return RunningState.read(file) if position.step else None

    def load_mean(self, student):
        """Gives the student the mean of its weights after `averaged_epochs`."""
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
        """Gives the student its final weights and marks the stage as done."""
        if keep_best:
            best = f"best-{self.state.newest.best_epoch}"
            self._load(_weights_only(student), best)
        digests = self._save(_weights_only(student), "final")
        self.state = dataclasses.replace(self.state, is_finished=True)
        self._write_state(digests)

    def restore_final(self, student):
        """Loads the weights with which the stage ended."""
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
        except Exception as error:  # h5py and Keras raise many kinds
            raise self._error(
                name, f"it cannot be loaded ({shortened(str(error))})"
            ) from error

    def _check(self, name):
        """Refuses a file that is not as it was written."""
        file = self._file(name)
        known = self.state.digests.get(name)
        if not file.is_file():
            found = "there is no such file"
        elif known is None:
            found = f"{STATE} has no digest of it"
        elif known != digest(file):
            found = "its content is not what was written"
        elif name not in self._written and (problem := hdf5_problem(file)):
            found = f"it cannot be opened ({problem})"
        else:
            return
        raise self._error(name, found)

    def _error(self, name, found):
        file = self._file(name)
        return RunError(f"Cannot go on with {file}: {found}. {self._way(name)}")

    def _way(self, name):
        """What to do about a file that is damaged."""
        earlier = [
            position
            for position in self.state.kept[:-1]
            if self._file(position.name).is_file()
        ]
        if earlier and name == self.state.newest.name:
            return (
                f"Remove it, and the same command goes on {earlier[-1]} of "
                "this stage."
            )
        return made_again(self._directory)

    def _save(self, model, name, running=None):
        """Writes a file to the disk; returns its digest by its name."""
        with writing(self._file(name), "The checkpoints before are kept."):
            self._directory.mkdir(parents=True, exist_ok=True)
            temporary = self._file(UNFINISHED)
            temporary.unlink(missing_ok=True)
            # HDF5 ends the process where the disk fills up.
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
        """Makes a position the newest, and forgets what is not kept."""
        kept = [old for old in self.state.kept if not old.step]
        if position.step:
            kept = [*kept[-self._keep :], position]
        else:
            kept = [*kept, position][-self._keep :]
        self.state = dataclasses.replace(self.state, kept=tuple(kept))
        self._write_state(digests)

    def _write_state(self, digests):
        """Writes the state with the digests of new files; removes old ones."""
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
        """Removes the files that the state does not speak of."""
        wanted = self._wanted()
        for file in self._directory.glob(f"*{SUFFIX}"):
            if file.name.removesuffix(SUFFIX) not in wanted:
                file.unlink()

    def _wanted(self):
        """The names of the files that the state speaks of."""
        kept = {position.name for position in self.state.kept}
        best = {f"best-{position.best_epoch}" for position in self.state.kept}
        if not self.state.is_finished:
            averaged = {f"averaged-{epoch}" for epoch in self._averaged_epochs}
            return kept | best | averaged
        return {"final", *(kept | best if self._keep > 1 else ())}


def _weights_only(model):
    """The model's layers in a model that has no optimiser to be saved."""
    # With a name, which is in the file: Keras' own has a number of the process.
    return keras.Model(model.input, model.output, name="weights")
