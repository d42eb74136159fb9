"""Checkpoints of a stage: where it stands, its best and its last weights."""

import dataclasses
import math
import pathlib

import keras

from kdkit.disk import writing
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.files import digest
from kdkit.files import flush
from kdkit.files import rename
from kdkit.files import reserve
from kdkit.models import stored_size
from kdkit.reading import read_json
from kdkit.settings import from_dict
from kdkit.settings import to_dict
from kdkit.training.run_directory import write_json
from kdkit.training.running_state import RunningState

STATE = "state.json"
SUFFIX = ".weights.h5"
UNFINISHED = "unfinished"


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
        if (directory / STATE).exists():
            self.state = _read_state(directory / STATE)

    def begin(self) -> Position:
        """Returns where to go on: after the newest checkpoint that is there.

        Raises:
            RunError: if it is not as it was written.
        """
        kept = list(self.state.kept)
        while kept and not self._file(kept[-1].name).exists():
            gone = self._file(kept.pop().name)
            print(f"{gone} is not there: going on without it.", flush=True)
        self.state = dataclasses.replace(self.state, kept=tuple(kept))
        if kept:
            self._check(kept[-1].name)
        return self.state.newest

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
        file = self._file(position.name)
        if position.epoch or position.step:
            trainer.load_weights(file)
        return RunningState.read(file) if position.step else None

    def load_mean(self, student):
        """Gives the student the mean of its weights after `averaged_epochs`."""
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
        self._load(_weights_only(student), "final")

    def _file(self, name):
        return self._directory / f"{name}{SUFFIX}"

    def _load(self, model, name):
        self._check(name)
        model.load_weights(self._file(name))

    def _check(self, name):
        """Refuses a file that is not as it was written."""
        file = self._file(name)
        known = self.state.digests.get(name)
        if not file.is_file():
            found = "there is no such file"
        elif known not in (None, digest(file)):
            found = "its content is not what was written"
        else:
            return
        raise RunError(f"Cannot go on with {file}: {found}. {self._way(name)}")

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
        return (
            f"Remove the folder {self._directory}, and the same command makes "
            "this stage again from its beginning."
        )

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
        write_json(self._directory / STATE, to_dict(self.state))
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


def _read_state(file):
    values = read_json(file, "the state of a stage", _of_state)
    return from_dict(StageState, values)


def _of_state(values):
    """What is wrong with the state of a stage, or `None`."""
    try:
        from_dict(StageState, values)
    except UsageError as error:
        return str(error).removesuffix(".")
    return None


def _weights_only(model):
    """The model's layers in a model that has no optimiser to be saved."""
    # With a name, which is in the file: Keras' own has a number of the process.
    return keras.Model(model.input, model.output, name="weights")
