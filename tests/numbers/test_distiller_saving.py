"""Files of a distiller and of its student."""

import json
import subprocess
import sys
import types
import zipfile

import h5py
import keras
import keras_hub
import numpy as np
import pytest
from kit.helpers import (
    assert_same_weights,
    batch,
    bert,
    cross_entropy,
    distiller,
    labels,
    large_except,
    objectives,
    to_numpy,
)

import kdkit
from kdkit.losses import LogitMSE, SmoothedCrossEntropy
from kdkit.taps import ModelShape

pytestmark = pytest.mark.usefixtures("eager")

NUMBERS = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")


def compiled(**arguments):
    model = distiller(**arguments)
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=cross_entropy() if model.hard_label_weight else None,
    )
    return model


def fit(model, **arguments):
    return model.fit(batch(), labels(), verbose=0, shuffle=False, **arguments)


def dense():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])


def on_numbers(*models, **arguments):
    """A distiller of tiny networks."""
    teacher, student = models or (dense(), dense())
    objective = kdkit.Objective(LogitMSE())
    return kdkit.Distiller(teacher, student, objective, **arguments)


def read_sizes(path):
    """The sizes of the arrays in a weights file, by their names."""
    items = {}
    with h5py.File(path) as file:
        file.visititems(items.__setitem__)
        return {
            name: item.size
            for name, item in items.items()
            if isinstance(item, h5py.Dataset)
        }


def test_checkpoints_hold_no_teacher(tmp_path):
    """There are the student, the projection, their slots, nothing else."""
    model = compiled()
    paths = tmp_path / "model.keras", tmp_path / "own.weights.h5"
    save = keras.callbacks.ModelCheckpoint
    callbacks = [save(paths[0]), save(paths[1], save_weights_only=True)]
    fit(model, callbacks=callbacks)
    with zipfile.ZipFile(paths[0]) as archive:
        weights_file = archive.extract("model.weights.h5", tmp_path)
    weights = [*model.student.weights, *model.projections[0].weights]
    variables = [*model.optimizer.variables, *model.student.optimizer.variables]
    for path in (weights_file, paths[1]):
        sizes = read_sizes(path)
        slots = {name for name in sizes if "optimizer/" in name}
        for names, own in ((set(sizes) - slots, weights), (slots, variables)):
            assert len(names) == len(own)
            assert sum(sizes[name] for name in names) == sum(
                int(np.prod(variable.shape)) for variable in own
            )


@pytest.mark.parametrize("include_logits", large_except([True, False], False))
def test_loaded_distiller_goes_on_as_the_saved_one(tmp_path, include_logits):
    """Without logits, the head has neither gradients nor, in Keras, slots."""
    model = compiled(
        terms=objectives(include_logits), hard_label_weight=include_logits * 0.5
    )
    fit(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        *(one.predict(batch(), verbose=0) for one in (loaded, model))
    )
    assert loaded.teacher is None
    loaded.attach_teacher(model.teacher)
    first, second = (
        one.evaluate(batch(), labels(), verbose=0) for one in (loaded, model)
    )
    assert first == second
    assert int(loaded.optimizer.iterations) == 1
    fit(loaded)
    fit(model)
    assert_same_weights(loaded.get_weights(), model.get_weights(), atol=1e-6)


LOAD = """
import importlib
import pkgutil
from kdkit import Distiller
import keras
import kdkit
import numpy as np
registered = set(keras.saving.get_custom_objects())
for path in {paths}:
    model = keras.models.load_model(path)
    assert type(model) is Distiller
    print(model.predict(np.eye(4), verbose=0).tolist())
for module in pkgutil.walk_packages(kdkit.__path__, "kdkit."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError:  # of an extra, or of another backend
            pass
print(sorted(set(keras.saving.get_custom_objects()) - registered))
"""


def test_a_new_process_loads_what_any_module_registers(tmp_path):
    """After `from kdkit import Distiller` alone."""
    model = on_numbers(hard_label_weight=0.5)
    model.compile("sgd", loss=SmoothedCrossEntropy(0.1))
    paths = [str(tmp_path / f"{name}.keras") for name in ("best", "last")]
    best = keras.callbacks.ModelCheckpoint(paths[0])
    model.fit(np.eye(4), np.array([0, 1, 1, 2]), callbacks=[best], verbose=0)
    model.save(paths[1])
    done = subprocess.run(
        [sys.executable, "-c", LOAD.format(paths=paths)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *predictions, missing = done.stdout.splitlines()[-3:]
    for line in predictions:
        np.testing.assert_allclose(
            json.loads(line), model.predict(np.eye(4), verbose=0), 1e-5
        )
    assert missing == "[]"


def test_a_distiller_can_be_made_before_its_teacher():
    model = distiller(teacher=ModelShape(3, 2, 12, 2, has_pooled_output=True))
    model.compile()
    assert model.teacher is None
    for method in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match="attach_teacher"):
            method(batch(), verbose=0)
    with pytest.raises(ValueError, match="hidden_dim=12.*hidden_dim=16"):
        model.attach_teacher(bert(2, 16))
    teacher = bert(2, 12)
    model.attach_teacher(teacher)
    assert model.teacher is teacher
    model.fit(batch(), verbose=0)


def test_a_new_teacher_takes_effect_in_traced_steps():
    model = on_numbers()
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=False)

    def logged():
        logs = model.evaluate(NUMBERS, verbose=0, return_dict=True)
        return [logs, model.fit(NUMBERS, verbose=0).history]

    logged()
    second = dense()
    model.attach_teacher(second)
    differences = second.predict(NUMBERS) - model.student.predict(NUMBERS)
    expected = np.mean(differences**2)
    for logs in logged():
        np.testing.assert_allclose(logs["logit_mse"], expected, rtol=1e-5)


class StopsOnce(keras.callbacks.Callback):
    """Interrupts the training after an epoch, as a power cut would."""

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt


def test_backup_and_restore_continues_to_the_same_weights(tmp_path):
    teacher = bert(2, 12, seed=1)

    def model():
        keras.utils.set_random_seed(1)
        return compiled(teacher=teacher, terms=objectives(include_logits=False))

    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path / "backup")

    uninterrupted, continued = model(), model()
    fit(uninterrupted, epochs=4)
    with pytest.raises(KeyboardInterrupt):
        fit(model(), epochs=4, callbacks=[backup(), StopsOnce()])
    history = fit(continued, epochs=4, callbacks=[backup()]).history
    assert len(history["loss"]) < 4
    assert_same_weights(
        *(to_numpy(one.weights) for one in (continued, uninterrupted)),
        atol=1e-6,
    )


# The callback that saves the student alone.


def trained(callback, models=(), x=NUMBERS, epochs=3):
    model = on_numbers(*models)
    # The second step is too long, so that the first epoch is the best.
    rates = keras.optimizers.schedules.PiecewiseConstantDecay(
        [0, 1], [0.1, 90.0, 0.1]
    )
    model.compile(keras.optimizers.SGD(rates))
    model.fit(
        x, validation_data=(x,), epochs=epochs, verbose=0, callbacks=[callback]
    )
    return model


def test_each_epoch_is_saved_under_its_name(tmp_path, logged):
    name = "student-{epoch:02d}-{val_logit_mse:.1f}.keras"
    model = trained(kdkit.StudentCheckpoint(tmp_path / name))
    files = sorted(tmp_path.iterdir())
    assert [file.name[:10] for file in files] == [
        f"student-0{epoch}" for epoch in (1, 2, 3)
    ]
    assert "epoch 3" in logged()
    student = keras.models.load_model(files[-1])
    assert_same_weights(student.get_weights(), model.student.get_weights())


def test_best_epoch_is_saved_and_restored(tmp_path):
    callback, threshold = (
        kdkit.StudentCheckpoint(
            tmp_path / f"{name}.keras", save_best_only=True, **arguments
        )
        for name, arguments in (
            ("best", {"restore_best_weights": True}),
            ("none", {"initial_value_threshold": 0}),
        )
    )
    model = trained(callback)
    assert callback.best_epoch == 1
    best = keras.models.load_model(tmp_path / "best.keras")
    assert_same_weights(best.get_weights(), model.student.get_weights())
    value, _ = model.evaluate(NUMBERS, verbose=0)
    assert float(value) == pytest.approx(callback.best, rel=1e-5)
    trained(threshold)
    assert not (tmp_path / "none.keras").exists()


@pytest.mark.parametrize(
    ("arguments", "better"),
    [
        ({"monitor": "val_loss"}, 1.0),
        ({"monitor": "val_accuracy"}, 3.0),
        ({"monitor": "val_r2_score"}, 3.0),
        ({"monitor": "val_layer2"}, 1.0),
        ({"monitor": "val_cosine_similarity"}, 1.0),  # an objective
        ({"monitor": "val_score", "mode": "max"}, 3.0),
    ],
)
def test_mode_is_which_value_is_better(tmp_path, arguments, better):
    callback = kdkit.StudentCheckpoint(
        tmp_path / "m.keras", save_best_only=True, **arguments
    )
    model = dense()
    model.objectives = [types.SimpleNamespace(name="cosine_similarity")]
    callback.set_model(model)
    for epoch, value in enumerate((2.0, float("nan"), 1.0, 3.0)):
        callback.on_epoch_end(epoch, {arguments["monitor"]: value})
    assert callback.best == better


def test_keras_hub_student_without_tokenizer_is_a_directory(tmp_path):
    path = tmp_path / "best"
    models = bert(1, 8), bert(1, 8)
    model = trained(kdkit.StudentCheckpoint(path), models, batch(), 1)
    backbone = keras_hub.models.Backbone.from_preset(str(path))
    assert_same_weights(
        backbone.get_weights(), model.student.backbone.get_weights()
    )
