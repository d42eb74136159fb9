"""Saving a distiller: without the teacher, and for resuming."""

import ast
import json
import pathlib
import subprocess
import sys
import zipfile

import h5py
import keras
import numpy as np
import pytest
from kit.helpers import (
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
from kdkit.models.families import ALL_FAMILIES
from kdkit.taps import ModelShape

ROWS = 4


def compiled(**arguments):
    model = distiller(**arguments)
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=cross_entropy() if model.hard_label_weight else None,
        run_eagerly=True,
    )
    return model


def fit(model, **arguments):
    return model.fit(
        batch(ROWS), labels(ROWS), verbose=0, shuffle=False, **arguments
    ).history


def evaluate(model):
    return model.evaluate(batch(ROWS), labels(ROWS), verbose=0)


def read_sizes(path):
    """The sizes of the arrays in a weights file, by their names."""
    sizes = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            sizes[name] = item.size

    with h5py.File(path) as file:
        file.visititems(visit)
    return sizes


def assert_holds_no_teacher(path, model):
    """There are the student, the projection, their slots, nothing else."""
    sizes = read_sizes(path)
    slots = {name for name in sizes if "optimizer/" in name}
    weights = [*model.student.weights, *model.projections[0].weights]
    variables = [*model.optimizer.variables, *model.student.optimizer.variables]
    for names, own in ((set(sizes) - slots, weights), (slots, variables)):
        assert len(names) == len(own)
        assert sum(sizes[name] for name in names) == sum(
            int(np.prod(variable.shape)) for variable in own
        )


@pytest.mark.parametrize("save_weights_only", [True, False])
def test_checkpoints_hold_no_teacher(tmp_path, save_weights_only):
    model = compiled()
    path = tmp_path / (
        "model.weights.h5" if save_weights_only else "model.keras"
    )
    checkpoint = keras.callbacks.ModelCheckpoint(
        path, save_weights_only=save_weights_only
    )
    fit(model, callbacks=[checkpoint])
    if not save_weights_only:
        with zipfile.ZipFile(path) as archive:
            path = archive.extract("model.weights.h5", tmp_path)
    assert_holds_no_teacher(path, model)


@pytest.mark.parametrize("include_logits", large_except([True, False], False))
def test_loaded_distiller_goes_on_as_the_saved_one(tmp_path, include_logits):
    """Without logits, the head has neither gradients nor, in Keras, slots."""
    model = compiled(
        terms=objectives(include_logits), hard_label_weight=include_logits * 0.5
    )
    fit(model)
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.models.load_model(path)
    np.testing.assert_array_equal(
        loaded.predict(batch(ROWS), verbose=0),
        model.predict(batch(ROWS), verbose=0),
    )
    assert loaded.teacher is None
    loaded.attach_teacher(model.teacher)
    assert evaluate(loaded) == evaluate(model)
    assert int(loaded.optimizer.iterations) == 1
    # Keras keeps run_eagerly out of the file; the graph rounds differently.
    loaded.run_eagerly = True
    fit(loaded)
    fit(model)
    for after_loading, without in zip(
        loaded.get_weights(), model.get_weights(), strict=True
    ):
        np.testing.assert_allclose(after_loading, without, atol=1e-6)


LOAD = """
from kdkit import Distiller
import keras
import numpy as np
for path in {paths}:
    model = keras.models.load_model(path)
    assert type(model) is Distiller
    print(model.predict(np.eye(3), verbose=0).tolist())
"""


def test_a_new_process_loads_distillers(tmp_path):
    teacher, student = (
        keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        for _ in range(2)
    )
    model = kdkit.Distiller(
        teacher,
        student,
        kdkit.Objective(kdkit.losses.LogitMSE()),
        hard_label_weight=0.5,
    )
    model.compile(
        "sgd", loss=kdkit.losses.SmoothedCrossEntropy(0.1), run_eagerly=True
    )
    paths = [str(tmp_path / f"{name}.keras") for name in ("best", "last")]
    best = keras.callbacks.ModelCheckpoint(paths[0])
    model.fit(np.eye(3), np.array([0, 1, 1]), callbacks=[best], verbose=0)
    model.save(paths[1])
    done = subprocess.run(
        [sys.executable, "-c", LOAD.format(paths=paths)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines()[-2:]:
        np.testing.assert_allclose(
            json.loads(line), model.predict(np.eye(3), verbose=0), 1e-5
        )


def test_distiller_registers_every_class_that_files_hold():
    package = pathlib.Path(kdkit.__file__).parent
    classes = {family.tokenizer for family in ALL_FAMILIES.values()}
    for family in ALL_FAMILIES.values():
        if family.block_settings is not None:
            classes.add(family.backbone)
        if family.head_settings is not None:
            classes.add(family.masked_lm)
    names = {one.__name__ for one in classes}
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and any(
                "register_keras_serializable" in ast.unparse(one)
                for one in node.decorator_list
            ):
                names.add(node.name)
    program = (
        "from kdkit import Distiller; import keras; "
        "print(*keras.saving.get_custom_objects())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert names <= {one.partition(">")[2] for one in done.stdout.split()}


def test_distiller_can_be_made_before_its_teacher():
    teacher = bert(2, 12)
    model = distiller(teacher=ModelShape(3, 2, 12, 2, has_pooled_output=True))
    model.compile(run_eagerly=True)
    assert model.teacher is None
    for method in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match="Call attach_teacher"):
            method(batch(ROWS), verbose=0)
    model.attach_teacher(teacher)
    assert model.teacher is teacher
    model.fit(batch(ROWS), verbose=0)


def test_attach_teacher_refuses_another_size():
    model = distiller()
    with pytest.raises(ValueError, match="hidden_dim=12.*hidden_dim=16"):
        model.attach_teacher(bert(2, 16))


def test_new_teacher_takes_effect_in_compiled_steps():
    inputs = keras.Input((3,))
    student = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    first, second = (
        keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        for _ in range(2)
    )
    model = kdkit.Distiller(
        first, student, [kdkit.Objective(kdkit.losses.LogitMSE())]
    )
    model.compile(optimizer=keras.optimizers.SGD(0.0))
    x = np.random.normal(size=(4, 3)).astype("float32")
    model.evaluate(x, verbose=0)
    model.fit(x, verbose=0)
    model.attach_teacher(second)
    expected = np.mean((np.asarray(second(x)) - np.asarray(student(x))) ** 2)
    logs = model.evaluate(x, verbose=0, return_dict=True)
    np.testing.assert_allclose(logs["logit_mse"], expected, rtol=1e-5)
    history = model.fit(x, verbose=0).history
    np.testing.assert_allclose(history["logit_mse"], expected, rtol=1e-5)


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

    uninterrupted = model()
    fit(uninterrupted, epochs=4)

    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path / "backup")

    with pytest.raises(KeyboardInterrupt):
        fit(model(), epochs=4, callbacks=[backup(), StopsOnce()])
    continued = model()
    history = fit(continued, epochs=4, callbacks=[backup()])
    assert len(history["loss"]) < 4
    for one, other in zip(
        to_numpy(continued.weights),
        to_numpy(uninterrupted.weights),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)
