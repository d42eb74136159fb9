"""Checkpoints of a stage: where it stands, its best and its last weights."""

import dataclasses
import json
import pathlib

import keras

from kdkit.files import flush
from kdkit.files import rename
from kdkit.files import reserve
from kdkit.files import writing
from kdkit.models import stored_size
from kdkit.settings import to_dict
from kdkit.training.run_directory import write_json

STATE = "state.json"


@dataclasses.dataclass(frozen=True)
class StageState:
    """Where a stage stands. `state.json` is written last, so it is true.

    Args:
        epoch: int. The number of finished epochs.
        best_epoch: int or `None`. The epoch with the best dev metric.
        best_value: float or `None`. That metric.
        is_finished: bool. Whether the stage is done.
    """

    epoch: int = 0
    best_epoch: int | None = None
    best_value: float | None = None
    is_finished: bool = False


class StageCheckpoints:
    """Saves and restores the training of one stage.

    Holds the last epoch (student, projections, optimiser) and the student's
    weights of the best epoch and of those to average. Never a teacher.

    Args:
        directory: `pathlib.Path`, made when something is saved.
        averaged_epochs: tuple of ints. The epochs whose mean is asked for.
            Defaults to `()`.
    """

    def __init__(
        self, directory: pathlib.Path, averaged_epochs: tuple[int, ...] = ()
    ):
        self._directory = directory
        self._averaged_epochs = averaged_epochs
        self.state = StageState()
        if (directory / STATE).exists():
            self.state = StageState(
                **json.loads((directory / STATE).read_text())
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
        best_value = self.state.best_value
        sign = 1 if larger_is_better else -1
        # NaN (an undefined correlation, say) never counts as better.
        is_best = best_value is None or sign * value > sign * best_value
        if is_best:
            self._save(_weights_only(student), f"best-{epoch}")
        if epoch in self._averaged_epochs:
            self._save(_weights_only(student), f"averaged-{epoch}")
        self._save(trainer, f"epoch-{epoch}")
        self.state = dataclasses.replace(
            self.state,
            epoch=epoch,
            best_epoch=epoch if is_best else self.state.best_epoch,
            best_value=value if is_best else best_value,
        )
        self._write_state()
        self._remove_old()
        return is_best

    def restore_epoch(self, trainer):
        """Loads the last finished epoch, if there is one."""
        if self.state.epoch:
            trainer.load_weights(self._file(f"epoch-{self.state.epoch}"))

    def load_mean(self, student):
        """Gives the student the mean of its weights after `averaged_epochs`."""
        model = _weights_only(student)
        sums = [0.0] * len(model.weights)
        for epoch in self._averaged_epochs:
            model.load_weights(self._file(f"averaged-{epoch}"))
            sums = [
                total + weight
                for total, weight in zip(sums, model.get_weights(), strict=True)
            ]
        num_epochs = len(self._averaged_epochs)
        model.set_weights([total / num_epochs for total in sums])

    def finish(self, student, keep_best):
        """Gives the student its final weights and marks the stage as done."""
        if keep_best:
            best = self._file(f"best-{self.state.best_epoch}")
            _weights_only(student).load_weights(best)
        self._save(_weights_only(student), "final")
        self.state = dataclasses.replace(self.state, is_finished=True)
        self._write_state()
        self._remove_old()

    def restore_final(self, student):
        """Loads the weights with which the stage ended."""
        _weights_only(student).load_weights(self._file("final"))

    def _file(self, name):
        return self._directory / f"{name}.weights.h5"

    def _save(self, model, name):
        with writing(self._file(name), "The epochs before are kept."):
            self._directory.mkdir(parents=True, exist_ok=True)
            temporary = self._directory / "unfinished.weights.h5"
            temporary.unlink(missing_ok=True)
            # HDF5 ends the process where the disk fills up.
            reserve(self._directory, stored_size(model))
            model.save_weights(temporary, overwrite=True)
            flush(temporary)
            rename(temporary, self._file(name))

    def _write_state(self):
        write_json(self._directory / STATE, to_dict(self.state))

    def _remove_old(self):
        if self.state.is_finished:
            wanted = {"final"}
        else:
            wanted = {
                f"epoch-{self.state.epoch}",
                f"best-{self.state.best_epoch}",
                *(f"averaged-{epoch}" for epoch in self._averaged_epochs),
            }
        for file in self._directory.glob("*.weights.h5"):
            if file.name.removesuffix(".weights.h5") not in wanted:
                file.unlink()


def _weights_only(model):
    """The model's layers in a model that has no optimiser to be saved."""
    return keras.Model(model.input, model.output)
