"""Checkpoints of a stage: its best and its last weights, and what is kept."""

import dataclasses
import math
import pathlib

import keras

from kdkit.disk import writing
from kdkit.errors import RunError
from kdkit.errors import shortened
from kdkit.files import digest
from kdkit.files import flush
from kdkit.files import rename
from kdkit.files import reserve
from kdkit.hdf5 import hdf5_problem
from kdkit.models import stored_size
from kdkit.taps import remember_optimizers
from kdkit.training.running_state import RunningState
from kdkit.training.stage_state import STATE
from kdkit.training.stage_state import Position
from kdkit.training.stage_state import StageState
from kdkit.training.stage_state import made_again
from kdkit.training.stage_state import read_state
from kdkit.training.stage_state import write_state

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
            print(f"{gone} is not there: going on without it.", flush=True)
        self.state = dataclasses.replace(self.state, kept=tuple(kept))
        if kept:
            self._check(kept[-1].name)
        return self.state.newest

    def _tell_of_lost_state(self):
        file = self._directory / STATE
        names = {path.name for path in self._directory.glob(f"*{SUFFIX}")}
        if names - {self._file(UNFINISHED).name} and not file.exists():
            print(
                f"{file} is not there, which says what the checkpoints beside "
                "it are: making this stage from its beginning, without them.",
                flush=True,
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
