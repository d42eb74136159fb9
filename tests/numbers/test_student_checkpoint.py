"""The callback that saves the student alone."""

import keras
import keras_hub
import numpy as np
import pytest
from kit.helpers import batch, bert

import kdkit

pytestmark = pytest.mark.usefixtures("eager")
NUMBERS = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")


def network():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])


def trained(callback, teacher=None, student=None, x=NUMBERS, epochs=3):
    distiller = kdkit.Distiller(
        teacher or network(),
        student or network(),
        kdkit.Objective(kdkit.losses.LogitMSE()),
    )
    # The second step is too long, so that the first epoch is the best.
    rates = keras.optimizers.schedules.PiecewiseConstantDecay(
        [0, 1], [0.1, 90.0, 0.1]
    )
    distiller.compile(keras.optimizers.SGD(rates))
    distiller.fit(
        x, validation_data=(x,), epochs=epochs, verbose=0, callbacks=[callback]
    )
    return distiller


def test_each_epoch_is_saved_under_its_name(tmp_path, logged):
    name = "student-{epoch:02d}-{val_logit_mse:.1f}.keras"
    distiller = trained(kdkit.StudentCheckpoint(tmp_path / name))
    files = sorted(tmp_path.iterdir())
    assert [file.name[:10] for file in files] == [
        f"student-0{epoch}" for epoch in (1, 2, 3)
    ]
    assert "Saved the student of epoch 3" in logged()
    student = keras.models.load_model(files[-1])
    np.testing.assert_array_equal(
        student.get_weights()[0], distiller.student.get_weights()[0]
    )


def test_best_epoch_is_saved_and_restored(tmp_path):
    path = tmp_path / "student.keras"
    callback = kdkit.StudentCheckpoint(
        path, save_best_only=True, restore_best_weights=True
    )
    distiller = trained(callback)
    assert callback.best_epoch == 1
    best = keras.models.load_model(path).get_weights()[0]
    np.testing.assert_array_equal(best, distiller.student.get_weights()[0])
    assert float(distiller.evaluate(NUMBERS, verbose=0)[0]) == pytest.approx(
        callback.best, rel=1e-5
    )
    threshold = kdkit.StudentCheckpoint(
        tmp_path / "none.keras", save_best_only=True, initial_value_threshold=0
    )
    trained(threshold)
    assert not (tmp_path / "none.keras").exists()


@pytest.mark.parametrize(
    ("arguments", "better"),
    [
        ({"monitor": "val_loss"}, 1.0),
        ({"monitor": "val_accuracy"}, 3.0),
        ({"monitor": "val_score", "mode": "max"}, 3.0),
    ],
)
def test_mode_says_which_value_is_better(tmp_path, arguments, better):
    callback = kdkit.StudentCheckpoint(
        tmp_path / "m.keras", save_best_only=True, **arguments
    )
    callback.set_model(network())
    for epoch, value in enumerate((2.0, float("nan"), 1.0, 3.0)):
        callback.on_epoch_end(epoch, {arguments["monitor"]: value})
    assert callback.best == better


def test_keras_hub_student_without_tokenizer_is_a_directory(tmp_path):
    path = tmp_path / "best"
    distiller = trained(
        kdkit.StudentCheckpoint(path), bert(1, 8), bert(1, 8), batch(), 1
    )
    backbone = keras_hub.models.Backbone.from_preset(str(path))
    np.testing.assert_array_equal(
        backbone.get_weights()[0], distiller.student.backbone.get_weights()[0]
    )
