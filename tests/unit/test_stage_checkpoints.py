"""Checkpoints of a stage: which remain, their content, damaged ones."""

import math

import keras
import numpy as np
import pytest
import safetensors.numpy
from kit.helpers import bert, distiller

from kdkit.taps import own_names
from kdkit.training.checkpoints import (
    Position,
    StageCheckpoints,
    assign_running,
    read,
    running_values,
    write,
)

RUNNING = [("loss/total", np.ones((1, 2), "float32"))]


def make_model():
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile(optimizer="adam", loss="mse")
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.fixture
def model():
    return make_model()


@pytest.fixture
def checkpoints(tmp_path):
    return StageCheckpoints(tmp_path)


def names(folder):
    return {file.name.removesuffix(".safetensors") for file in folder.iterdir()}


def test_the_newest_position_and_the_best_epoch_remain(
    model, checkpoints, tmp_path
):
    for epoch, value in enumerate((0.5, 0.9, 0.4, 0.3), start=1):
        checkpoints.save_step(model, 1, 2.0, RUNNING)
        checkpoints.save_step(model, 7, 2.5, RUNNING)
        checkpoints.save_epoch(model, model, epoch, RUNNING, value)
    assert names(tmp_path) == {"best-2", "epoch-4"}
    checkpoints.save_step(model, 3, 1.5, RUNNING)
    assert names(tmp_path) == {"best-2", "epoch-4-step-3"}
    best = {"best_epoch": 2, "best_value": 0.9, "best_loss": 0.0}
    expected = Position(4, 3, 1.5, **best)
    assert StageCheckpoints(tmp_path).position == expected
    checkpoints.finish(model, keep_best=True)
    assert names(tmp_path) == {"final"}
    assert StageCheckpoints(tmp_path).position.best_epoch == 2


def test_what_was_cut_short_is_finished_later(
    model, checkpoints, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:  # killed before files were removed
        patch.setattr(StageCheckpoints, "clean", lambda self: None)
        for epoch in (9, 10):
            checkpoints.save_epoch(model, model, epoch, RUNNING, epoch)
        checkpoints.save_step(model, 5, 1.0, RUNNING)
        found = StageCheckpoints(tmp_path).position
        assert (found.epoch, found.step) == (10, 5)
        checkpoints.finish(model, keep_best=True)
    opened = StageCheckpoints(tmp_path)
    assert opened.is_finished
    opened.clean()
    assert names(tmp_path) == {"final"}


@pytest.mark.parametrize("how", ["empty", "half", "header", "path", "weight"])
def test_a_damaged_file_is_named_with_the_folder(
    how, model, checkpoints, tmp_path
):
    checkpoints.save_epoch(model, model, 1, RUNNING, 0.492)
    file = tmp_path / "epoch-1.safetensors"
    content = file.read_bytes()
    file.write_bytes(
        {
            "empty": b"",
            "half": content[: len(content) // 2],
            "header": content.replace(b"0.492", b"0.092"),
            "path": content.replace(b"kernel", b"kernal"),
            "weight": content[:-1] + bytes([content[-1] ^ 1]),
        }[how]
    )
    with pytest.raises(RuntimeError, match=f"folder {tmp_path}"):
        StageCheckpoints(tmp_path)


def test_arrays_of_any_order_and_paths_that_are_equal_are_read_as_written(
    tmp_path,
):
    table = np.arange(12, dtype="float32").reshape(3, 4)
    arrays = [table, table.T, table[:, ::2], table[::-1], np.uint32(7)]
    file = tmp_path / "epoch-1.safetensors"
    write(file, [("dense/kernel", array) for array in arrays], Position(1))
    _, found, _ = read(file)
    assert len(safetensors.numpy.load_file(file)) == len(arrays)
    for (path, array), expected in zip(found, arrays, strict=True):
        assert path == "dense/kernel"
        np.testing.assert_array_equal(array, expected, strict=True)


def all_variables(model):
    """Each variable of a model, its metrics and its optimizer, once."""
    found = model.variables + model.metrics_variables
    found += model.optimizer.variables
    return [*{id(one): one for one in found}.values()]


def test_a_model_of_other_variables_is_refused(model, checkpoints):
    checkpoints.save_epoch(model, model, 1, [], 0.5)
    with pytest.raises(RuntimeError, match="other variables"):
        checkpoints.restore(make_model())  # Keras counts layers in their names
    checkpoints.restore(model)


class Twins(keras.Model):
    """Two layers of one name in float16: their variables share paths."""

    def __init__(self):
        super().__init__()
        one = {"name": "twin", "dtype": "mixed_float16"}
        self.twins = [keras.layers.Dense(2, **one) for _ in range(2)]
        self.dropout = keras.layers.Dropout(0.5)
        for twin in self.twins:
            twin.build((None, 2))

    def call(self, x, training=None):
        first, second = self.twins
        return second(self.dropout(first(x), training=training))


def twins():
    """A model that updates after every second part of a batch."""
    keras.utils.set_random_seed(1)
    with own_names():
        model = Twins()
        adam = keras.optimizers.AdamW(0.1, gradient_accumulation_steps=2)
        scaled = keras.optimizers.LossScaleOptimizer(
            adam, initial_scale=8.0, dynamic_growth_steps=3
        )
        model.compile(scaled, "mse", metrics=["mae"], run_eagerly=True)
        scaled.build(model.trainable_variables)
        model.test_on_batch(np.zeros((1, 2)), np.zeros((1, 2)))
        model.reset_metrics()
    return model


def test_a_run_in_float16_goes_on_within_an_accumulation(tmp_path):
    """The scale of the loss, half of a gradient, dropout and the metrics."""
    parts = np.random.default_rng(0).normal(size=(2, 9, 4, 2))
    whole, stopped, resumed = (twins() for _ in range(3))
    paths = [variable.path for variable in whole.weights]
    assert len(paths) == 2 * len({*paths})

    def trained(model, first, last):
        for x, y in zip(*parts[:, first:last], strict=True):
            model.train_on_batch(x, y)
        values = running_values(model)
        StageCheckpoints(tmp_path).save_step(model, last, 0.0, values)
        return (tmp_path / f"epoch-0-step-{last}.safetensors").read_bytes()

    expected = trained(whole, 0, 9)
    _, values, _ = read(tmp_path / "epoch-0-step-9.safetensors")
    assert len(values) == len(all_variables(whole))
    trained(stopped, 0, 3)
    running = StageCheckpoints(tmp_path).restore(resumed)
    assign_running(resumed, running)
    assert trained(resumed, 3, 9) == expected


NAN = math.nan


@pytest.mark.parametrize(
    ("values", "losses", "larger_is_better", "best"),
    [
        # An undefined metric is the best only of its kind.
        ([NAN, NAN, 0.1, NAN, 0.2], [0] * 5, True, [1, 2, 3, 3, 5]),
        # The loss on dev decides between equal metrics.
        ([0.5] * 4, [0.69, 0.68, 0.67, 0.68], True, [1, 2, 3, 3]),
        ([0.5] * 4, [0.69, 0.68, 0.67, 0.68], False, [1, 2, 3, 3]),
        ([0.5, 0.4, 0.6], [0.1, 0.2, 0.3], False, [1, 2, 2]),
    ],
)
def test_the_best_epoch(
    values, losses, larger_is_better, best, model, checkpoints, tmp_path
):
    found = []
    for epoch, (value, loss) in enumerate(zip(values, losses, strict=True), 1):
        checkpoints.save_epoch(
            model, model, epoch, RUNNING, value, larger_is_better, loss
        )
        assert StageCheckpoints(tmp_path).position == checkpoints.position
        found.append(checkpoints.position.best_epoch)
    assert found == best


def test_a_step_of_a_distiller_holds_nothing_of_its_teacher(
    checkpoints, tmp_path
):
    teacher = bert(2, 12, seed=1)
    model = distiller(teacher)
    model.compile(optimizer="adam")
    model.optimizer.build(model.trainable_variables)
    checkpoints.save_step(model, 1, 1.0, running_values(model))
    _, values, _ = read(tmp_path / "epoch-0-step-1.safetensors")
    weights = all_variables(model)
    assert len(values) == len(weights)
    own = {tuple(variable.shape) for variable in weights}
    theirs = {tuple(weight.shape) for weight in teacher.weights} - own
    assert theirs
    assert not {value.shape[1:] for _, value in values} & theirs
