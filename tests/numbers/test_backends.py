"""Every backend of Keras: equal numbers, and clear errors elsewhere."""

import dataclasses
import importlib.util
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from kit.backend import BACKEND, tensorflow_only
from kit.helpers import (
    ROOT,
    batch,
    bert,
    cross_entropy,
    distiller,
    eager_steps,
    labels,
    python_blocks,
    to_numpy,
)
from kit.trained import make_optimizer, padding_row

from kdkit import Objective, export, losses
from kdkit.recipes import RECIPES
from kdkit.taps import TEACHER_OUTPUTS, tapped

other_backend = pytest.mark.skipif(
    BACKEND == "tensorflow", reason="compares another backend with TensorFlow"
)


def one_step():
    """What a step of all kinds of terms logs, and the weights after it."""
    model = distiller(hard_label_weight=0.5)
    generator = np.random.default_rng(3)
    for weight in model.projections[0].weights:
        weight.assign(generator.normal(size=weight.shape) / 2)
    model.compile(
        optimizer=keras.optimizers.SGD(0.01, momentum=0.9, weight_decay=0.1),
        loss=cross_entropy(),
        metrics=["accuracy"],
        jit_compile=False if BACKEND == "torch" else "auto",
    )
    logs = model.train_on_batch(
        batch(), labels(), np.array([1.0, 0.5, 0.0, 2.0]), return_dict=True
    )
    weights = {f"weight_{i}": w for i, w in enumerate(model.get_weights())}
    return {**logs, **weights}


PLACES = ROOT, ROOT / "tests", ROOT / "tests" / "numbers"


def run(program, backend, **environment):
    """Runs Python on a backend; fails with what it wrote if it fails."""
    completed = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "KERAS_BACKEND": backend,
            "PYTHONPATH": os.pathsep.join(map(str, PLACES)),
            **environment,
        },
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 0, completed.stderr[-2000:]
    return completed.stdout


@other_backend
def test_a_step_is_that_of_tensorflow(tmp_path):
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    run(
        "import numpy, test_backends; "
        f"numpy.savez({str(tmp_path / 'step.npz')!r}, "
        "**test_backends.one_step())",
        "tensorflow",
    )
    found = one_step()
    with np.load(tmp_path / "step.npz") as expected:
        assert set(expected) == set(found)
        for name, value in expected.items():
            np.testing.assert_allclose(
                found[name], value, rtol=1e-5, atol=1e-5, err_msg=name
            )


def test_a_recipe_on_arrays_is_a_distiller_for_each_stage():
    teacher, student = bert(2, 12, seed=1), bert(1, 8, seed=2)
    before, names = student.get_weights(), {"teacher": teacher}
    names |= {"student": student, "x": batch(), "y": labels()}
    text = python_blocks("backends")[0].replace("stage.epochs", "1")
    with eager_steps():
        exec(text, names | {"dev_x": batch(), "dev_y": labels()})
    assert not np.array_equal(student.get_weights()[0], before[0])


def test_tinyberts_code_leaves_the_padding_token_alone():
    stage, _ = RECIPES["tinybert"].variant("tinybert").stages
    stage = dataclasses.replace(stage, learning_rate=0.01)
    student = bert(1, 8, seed=2)
    table = student.backbone.token_embedding.embeddings
    before = to_numpy(table)
    model = distiller(None, student, stage.weighted_objectives())
    row = padding_row(student, 0)
    model.compile(make_optimizer(stage, 2, padding_row=row), run_eagerly=True)
    model.fit(batch(8), epochs=2, verbose=0)
    after = to_numpy(table)
    decayed = before[0] * (1 - 0.01 * stage.weight_decay) ** 2
    np.testing.assert_allclose(after[0], decayed, atol=1e-6)
    assert np.abs(after[1:] - before[1:]).max() > 0.01


def test_outputs_of_a_teacher_may_come_with_pydatasets():
    model = distiller(terms=[Objective(losses.SoftCrossEntropy(), name="soft")])
    model.compile(optimizer=keras.optimizers.SGD(0.0), run_eagerly=True)
    x = batch()
    expected = model.evaluate(x, verbose=0, return_dict=True)
    logits = to_numpy(tapped(model.teacher, ["logits"])(x)["logits"])

    class Cached(keras.utils.PyDataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return ({**x, TEACHER_OUTPUTS: ({"logits": logits},)},)

    model.attach_teacher(bert(2, 12, seed=7))  # which is not asked
    history = model.fit(Cached(), verbose=0).history
    assert history["soft"][0] == pytest.approx(expected["soft"], rel=1e-5)


@other_backend
def test_what_is_of_tensorflow_says_so(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    for refused in (export.to_litert, export.to_saved_model):
        with pytest.raises(ValueError, match="KERAS_BACKEND=tensorflow"):
            refused(model, tmp_path / "model.tflite")


WITHOUT_TENSORFLOW = """
import sys
sys.modules["tensorflow"] = sys.modules["tensorflow_text"] = None
import kdkit
from kdkit.data import stream
for name in ("losses", "taps", "models", "recipes", "Distiller", "data"):
    getattr(kdkit, name)
try:
    stream.for_any_shape(lambda batch: batch)({})
except ValueError as error:
    print(error)
"""


@other_backend
def test_tensorflow_need_not_be_installed():
    message = run(WITHOUT_TENSORFLOW, BACKEND)
    assert "tensorflow.function" in message
    assert "pip install" in message


@tensorflow_only
def test_the_command_line_runs_on_tensorflow():
    completed = subprocess.run(
        [sys.executable, "-m", "kdkit", "demo"],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 2
    assert "KERAS_BACKEND=tensorflow" in completed.stderr
