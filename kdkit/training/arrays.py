"""Runs a recipe's stages on arrays, with Keras' own `fit`."""

import functools
import math

import keras
import numpy as np

from kdkit.errors import UsageError
from kdkit.models.architectures import padding_row
from kdkit.taps import select_inputs
from kdkit.training.optimizers import make_label_loss, make_optimizer
from kdkit.training.trainers import stage_distiller


def run_on_arrays(
    stages,
    teacher,
    student,
    x,
    y,
    validation_data=None,
    loss=None,
    metrics=("accuracy",),
    monitor="val_accuracy",
    seed=0,
    jit_compile="auto",
):
    """Trains a student with a recipe's stages on arrays in memory.

    Works on every Keras backend that trains, without files, `tf.data` or a
    tokenizer. `kdkit distill` does more: it reads a task, removes padding,
    resumes, logs, and computes the task's metrics.

    Args:
        stages: tuple of `kdkit.recipes.Stage`, such as
            `RECIPES["tinybert"].stages`. All must be on the task.
        teacher: `keras.Model`, or a list of several.
        student: `keras.Model`. It is trained in place.
        x: dict of int arrays of shape `(num_rows, sequence_length)`, the inputs
            of both models.
        y: array of labels of shape `(num_rows,)`, or `None` if no stage uses
            labels.
        validation_data: tuple of such `x` and `y`, or `None`. Without it, a
            stage ends with the weights of its last epoch. Defaults to `None`.
        loss: `keras.losses.Loss` on the labels, or `None` for the sparse
            cross-entropy between labels and logits. Defaults to `None`.
        metrics: sequence of Keras metrics on the labels, or their names.
            Defaults to `("accuracy",)`.
        monitor: string. A stage with `keep_best` chooses the epoch with the
            largest value of this log, and of equal ones that with the smallest
            dev loss. Defaults to `"val_accuracy"`.
        seed: int. The seed for each stage's projections, dropout and order of
            examples. Defaults to 0.
        jit_compile: bool or `"auto"`, as in `keras.Model.compile`. Defaults to
            `"auto"`.

    Returns:
        Dict from the name of each stage to a dict from log to the list of its
        values after every epoch.

    Raises:
        UsageError: (a `ValueError`) if a stage is on running text or has
            `gradient_accumulation_steps`, or no generator takes the seed.

    Example:

    ```python
    stages = kdkit.recipes.RECIPES["tinybert"].stages
    history = kdkit.run_on_arrays(
        stages, teacher, student, x, y, validation_data=(dev_x, dev_y)
    )
    max(history["prediction_layer"]["val_accuracy"])
    ```
    """
    for stage in stages:
        if stage.data != "task":
            raise UsageError(
                f"Stage {stage.name!r} is on running text. Arrays hold a "
                "task's examples."
            )
        if stage.gradient_accumulation_steps > 1:
            raise UsageError(
                f"Stage {stage.name!r} has gradient_accumulation_steps above "
                "1, and Keras' fit does not split batches into parts."
            )
    if loss is None:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    num_rows = len(keras.tree.flatten(x)[0])
    histories = {}
    for stage in stages:
        keras.utils.set_random_seed(seed)
        if stage.objectives:
            trainer, choose = stage_distiller(stage, teacher, student), dict
        else:  # because a keras-hub task would build a tf.data pipeline
            trainer = keras.Model(student.input, student.output)
            choose = functools.partial(select_inputs, trainer)
        trainer.compile(
            optimizer=make_optimizer(
                stage,
                stage.epochs * math.ceil(num_rows / stage.batch_size),
                padding_row=padding_row(student, _pad_token_id(x)),
            ),
            loss=make_label_loss(stage, loss),
            metrics=list(metrics),
            jit_compile=jit_compile,
        )
        validation = None
        if validation_data is not None:
            dev_x, dev_y = validation_data
            validation = (choose(dev_x), dev_y)
        histories[stage.name] = trainer.fit(
            choose(x),
            y,
            batch_size=stage.batch_size,
            epochs=stage.epochs,
            validation_data=validation,
            verbose=0,
            callbacks=[
                _ChosenWeights(student, stage, monitor if validation else None)
            ],
        ).history
    return histories


def _pad_token_id(x):
    """The token at padded positions, `None` if there are none."""
    if not {"token_ids", "padding_mask"} <= set(x):
        return None
    padding = np.asarray(x["token_ids"])[np.asarray(x["padding_mask"]) == 0]
    return int(padding[0]) if len(padding) else None


class _ChosenWeights(keras.callbacks.Callback):
    """Ends a stage with the weights that it asks for: best or last."""

    def __init__(self, student, stage, monitor):
        super().__init__()
        self._student = student
        self._monitor = monitor if stage.keep_best else None
        self._best = (-math.inf, 0.0)
        self._weights = None

    def on_epoch_end(self, epoch, logs=None):
        if self._monitor is None:
            return
        value = logs[self._monitor], -logs["val_loss"]
        if value > self._best:
            self._best = value
            self._weights = self._student.get_weights()

    def on_train_end(self, logs=None):
        if self._weights is not None:
            self._student.set_weights(self._weights)
