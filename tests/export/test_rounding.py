"""Students that round agree with their exported files."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from kit.helpers import python_blocks

import kdkit
from kdkit.quantization import (
    PRECISIONS,
    FakeQuantization,
    active_quantization,
    full_precision,
)

pytest.importorskip("ai_edge_quantizer")
LENGTH, VOCABULARY_SIZE = 16, 50


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    encoder = kdkit.models.student(
        {
            "num_layers": 2,
            "hidden_dim": 32,
            "num_heads": 2,
            "intermediate_dim": 64,
            "vocabulary_size": VOCABULARY_SIZE,
            "max_sequence_length": LENGTH,
        }
    )
    made = kdkit.models.add_head(encoder, kdkit.models.Head("sequence", 3))
    rng = np.random.default_rng(0)
    made.set_weights(
        [one + rng.normal(0, 0.2, one.shape) for one in made.get_weights()]
    )
    return made


def rows(count, seed):
    rng = np.random.default_rng(seed)
    real = np.arange(LENGTH) < rng.integers(3, LENGTH + 1, (count, 1))
    ids = rng.integers(1, VOCABULARY_SIZE, (count, LENGTH))
    return {
        "token_ids": (ids * real).astype("int32"),
        "segment_ids": np.zeros((count, LENGTH), "int32"),
        "padding_mask": real.astype("int32"),
    }


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_file_computes_what_the_student_that_rounds_computes(
    precision, model, tmp_path
):
    path, seen, measured = tmp_path / "m.tflite", rows(64, 1), rows(256, 2)
    rounding = FakeQuantization(precision, [seen])
    rounding.apply(model)
    report = kdkit.export.to_litert(
        model,
        path,
        precision,
        sequence_length=LENGTH,
        calibration_data=[seen],
        verification_data=[measured],
    )
    rounded = np.array(model(measured))
    with full_precision(model):
        exact = np.array(model(measured))
    assert active_quantization(model) is rounding
    rounding.remove()
    found = kdkit.export.open_file(path)(measured)
    far, near = (np.abs(found - one) for one in (exact, rounded))
    # A value at the border of two steps may round to either.
    assert near.mean() < far.mean() / 5
    assert np.median(near) < np.median(far) / 50
    assert report.max_abs_difference == pytest.approx(
        np.abs(found - rounded).max(), abs=1e-4
    )
    assert report.max_abs_difference < 0.3 * rounded.std()
    assert report.same_top_class > 0.98


def test_other_precisions_are_those_of_the_weights(model, tmp_path):
    rounding = FakeQuantization("int4")
    rounding.apply(model)
    report = kdkit.export.to_litert(
        model,
        tmp_path / "m.tflite",
        sequence_length=LENGTH,
        verification_data=[rows(16, 2)],
    )
    rounding.remove()
    assert report.max_abs_difference < 1e-4


@pytest.mark.large
def test_the_example_of_the_page_runs(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = python_blocks("quantization_aware")
    teacher = keras.models.clone_model(model)
    data = tf.data.Dataset.from_tensor_slices((rows(32, 3), np.zeros(32)))
    names = {
        "teacher": teacher,
        "student": model,
        "train": data.shuffle(32, seed=0).batch(8),
        "dev": data.batch(8),
    }
    # The data is the same in each epoch.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*shuffle")
        exec(block, names)
    assert names["report"].same_top_class > 0.9
    assert active_quantization(model) is None
