"""A callback that saves the student of a `Distiller`, alone."""

import logging
import math
import pathlib

import keras

from kdkit.errors import unknown
from kdkit.io.files import staged
from kdkit.models.families import family_of
from kdkit.models.saving import LoadedModel, save_model, stored_size

_log = logging.getLogger(__name__)
MODES = ("auto", "min", "max")
# Parts of the names of metrics that are better when they are larger.
LARGER_IS_BETTER = (
    *("acc", "auc", "f1", "fbeta", "precision", "recall", "iou", "io_u"),
    *("corr", "cosine_similarity", "sensitivity", "specificity", "r2_score"),
)


class StudentCheckpoint(keras.callbacks.Callback):
    """Saves the student after each epoch, or after the best ones.

    `keras.callbacks.ModelCheckpoint` would save the whole `Distiller`, with its
    projections and its optimizer. This callback saves the model that you will
    use: a `.keras` file, or for a keras-hub model a preset directory that loads
    without kdkit. Each file is complete or not there: a killed process leaves
    the previous one.

    Args:
        filepath: string or path. Ends in `.keras`, or is a directory, for a
            student of keras-hub. May contain fields that are filled with the
            epoch, counted from 1, and with logs:
            `"student-{epoch:02d}-{val_loss:.3f}.keras"`.
        monitor: string. The name in the logs by which epochs are compared.
            Defaults to `"val_loss"`.
        mode: string. `"min"` or `"max"`, what is better; `"auto"` takes `"max"`
            for names such as `"val_accuracy"`, unless an objective has that
            name. Defaults to `"auto"`.
        save_best_only: bool. Whether to save an epoch only if it is better than
            all before. Defaults to `False`.
        restore_best_weights: bool. Whether the student gets the weights of the
            best epoch when training ends. Keeps a copy in memory. Defaults to
            `False`.
        initial_value_threshold: float or `None`. The value that the first saved
            or restored epoch must exceed, such as that of an earlier run.
            Defaults to `None`.

    Attributes:
        best: float or `None`. The best value of `monitor`.
        best_epoch: int or `None`. Its epoch, counted from 1.

    Raises:
        UsageError: (a `ValueError`) for an unknown `mode`, or if the logs have
            no `monitor`.

    Example:

    ```python
    best = kdkit.StudentCheckpoint(
        "student.keras", monitor="val_accuracy", save_best_only=True
    )
    distiller.fit(train, validation_data=dev, epochs=10, callbacks=[best])
    student = keras.models.load_model("student.keras")
    ```
    """

    def __init__(
        self,
        filepath: str | pathlib.Path,
        monitor="val_loss",
        mode="auto",
        save_best_only=False,
        restore_best_weights=False,
        initial_value_threshold=None,
    ):
        super().__init__()
        if mode not in MODES:
            raise unknown("mode", mode, MODES)
        self.filepath = pathlib.Path(filepath)
        self.monitor = monitor
        self.save_best_only = save_best_only
        self.restore_best_weights = restore_best_weights
        self.best = initial_value_threshold
        self.best_epoch = None
        self.mode = mode
        self._best_weights = None

    @property
    def student(self):
        """The model to save: the distiller's student, or the model itself."""
        return getattr(self.model, "student", self.model)

    @property
    def _sign(self):
        """1 if larger values of `monitor` are better, otherwise -1."""
        losses = [one.name for one in getattr(self.model, "objectives", ())]
        is_loss = self.monitor.removeprefix("val_") in losses
        is_larger = any(part in self.monitor for part in LARGER_IS_BETTER)
        modes = ("max",) if is_loss or not is_larger else ("max", "auto")
        return 1 if self.mode in modes else -1

    def on_epoch_end(self, epoch, logs=None):
        logs = logs or {}
        compares = self.save_best_only or self.restore_best_weights
        is_best = compares and self._is_best(epoch + 1, logs)
        if is_best and self.restore_best_weights:
            self._best_weights = self.student.get_weights()
        if is_best or not self.save_best_only:
            name = str(self.filepath).format(epoch=epoch + 1, **logs)
            path = pathlib.Path(name)
            _save(self.student, path)
            _log.info("Saved the student of epoch %d: %s", epoch + 1, path)

    def on_train_end(self, logs=None):
        if self._best_weights is not None:
            self.student.set_weights(self._best_weights)
            self._best_weights = None

    def _is_best(self, epoch, logs):
        """Compares an epoch with those before, and notes a better one."""
        if self.monitor not in logs:
            raise unknown("log", self.monitor, logs)
        value = float(logs[self.monitor])
        is_better = not math.isnan(value) and (
            self.best is None or self._sign * (value - self.best) > 0
        )
        if is_better:
            self.best, self.best_epoch = value, epoch
        return is_better


def _save(student, path):
    """Writes a `.keras` file, or a preset directory for a keras-hub model."""
    with staged(path, stored_size(student)) as partial:
        if path.suffix == ".keras":
            student.save(partial)
        elif family_of(getattr(student, "backbone", student)) is None:
            student.save_to_preset(str(partial))
        else:
            preprocessor = getattr(student, "preprocessor", None)
            loaded = LoadedModel(
                student,
                getattr(preprocessor, "tokenizer", None),
                sequence_length=getattr(preprocessor, "sequence_length", None),
            )
            save_model(loaded, partial)
