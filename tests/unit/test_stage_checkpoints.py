"""Checkpoints of a stage: which remain, their content, damaged ones."""

import math

import h5py
import keras
import numpy as np
import pytest
from kit.helpers import bert, distiller

from kdkit.training.checkpoints import (
    Position,
    RunningState,
    StageCheckpoints,
)

RUNNING = RunningState((np.ones((1, 2), "float32"),))


@pytest.fixture
def model():
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile(optimizer="adam", loss="mse")
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.fixture
def checkpoints(tmp_path):
    return StageCheckpoints(tmp_path)


def names(folder):
    return {file.name.removesuffix(".weights.h5") for file in folder.iterdir()}


def test_the_last_epoch_the_best_and_the_last_step_remain(
    model, checkpoints, tmp_path
):
    for epoch, value in enumerate((0.5, 0.9, 0.4, 0.3), start=1):
        checkpoints.save_step(model, 1, 2.0, RUNNING)
        checkpoints.save_step(model, 7, 2.5, RUNNING)
        checkpoints.save_epoch(model, model, epoch, value)
    checkpoints.save_step(model, 3, 1.5, RUNNING)
    left = {"state.json", "best-2", "epoch-4", "epoch-4-step-3"}
    assert names(tmp_path) == left
    assert StageCheckpoints(tmp_path).begin() == Position(
        4, 3, 1.5, best_epoch=2, best_value=0.9, best_loss=0.0
    )
    checkpoints.finish(model, keep_best=True)
    assert names(tmp_path) == {"state.json", "final"}


def test_an_end_that_was_cut_short_is_finished_later(
    model, checkpoints, tmp_path, monkeypatch
):
    checkpoints.save_epoch(model, model, 1, 0.5)
    with monkeypatch.context() as patch:  # killed before the files were removed
        patch.setattr(StageCheckpoints, "clean", lambda self: None)
        checkpoints.finish(model, keep_best=True)
    assert "epoch-1" in names(tmp_path)
    opened = StageCheckpoints(tmp_path)
    assert opened.state.is_finished
    opened.clean()
    assert names(tmp_path) == {"state.json", "final"}


def test_a_step_is_restored_with_all_that_belongs_to_it(
    model, checkpoints, tmp_path
):
    model.set_weights([np.full((2, 1), 3.0), np.full(1, 4.0)])
    model.optimizer.iterations.assign(11)
    checkpoints.save_step(model, 5, 1.0, RUNNING)
    model.set_weights([np.zeros((2, 1)), np.zeros(1)])
    model.optimizer.iterations.assign(0)
    opened = StageCheckpoints(tmp_path)
    assert opened.begin().step == 5
    (value,) = opened.restore(model).values
    np.testing.assert_array_equal(value, RUNNING.values[0])
    assert model.get_weights()[0].tolist() == [[3.0], [3.0]]
    assert int(model.optimizer.iterations) == 11


def test_a_damaged_file_is_named_with_the_folder(model, checkpoints, tmp_path):
    checkpoints.save_epoch(model, model, 1, 0.5)
    (tmp_path / "epoch-1.weights.h5").write_bytes(b"")
    with pytest.raises(RuntimeError, match="Remove the folder"):
        StageCheckpoints(tmp_path).begin()
    checkpoints.finish(model, keep_best=True)
    (tmp_path / "final.weights.h5").write_bytes(b"half")
    with pytest.raises(RuntimeError, match="final"):
        StageCheckpoints(tmp_path).restore_final(model)


def test_a_state_of_which_a_digit_changed_is_named(
    model, checkpoints, tmp_path
):
    checkpoints.save_epoch(model, model, 1, 0.492)
    file = tmp_path / "state.json"
    file.write_text(file.read_text().replace("0.492", "0.092"))
    with pytest.raises(RuntimeError, match="checksum"):
        StageCheckpoints(tmp_path)


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
            model, model, epoch, value, larger_is_better, loss
        )
        assert StageCheckpoints(tmp_path).state == checkpoints.state
        found.append(checkpoints.state.newest.best_epoch)
    assert found == best


def test_a_step_of_a_distiller_holds_nothing_of_its_teacher(
    checkpoints, tmp_path
):
    teacher = bert(2, 12, seed=1)
    model = distiller(teacher)
    model.compile(optimizer="adam")
    model.optimizer.build(model.trainable_variables)
    checkpoints.save_step(model, 1, 1.0, RunningState.of(model))
    weights = (*model.variables, *model.optimizer.variables)
    own = {tuple(variable.shape) for variable in weights}
    found = []

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            found.append((item.shape, item.size))

    with h5py.File(tmp_path / "epoch-0-step-1.weights.h5") as content:
        content.visititems(visit)
    theirs = {tuple(weight.shape) for weight in teacher.weights} - own
    assert theirs
    assert not {shape for shape, _ in found} & theirs
    expected = sum(int(np.prod(variable.shape)) for variable in weights)
    # The others are only sums of metrics and states of random layers.
    total = sum(size for _, size in found)
    assert 0 <= total - expected < teacher.count_params() / 20
