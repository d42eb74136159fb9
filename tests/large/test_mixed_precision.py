"""Runs in mixed precision: float32 in metrics, saved and exported files."""

import dataclasses

import keras_hub
import numpy as np
import pytest
from kit.helpers import read_events, small_dev_set

from kdkit import models
from kdkit.models import Head
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.settings import override
from kdkit.training import distill, pretrain

pytestmark = pytest.mark.large

ROWS = 32
SMALL_TEXT = ["corpus.max_texts=200", "model.num_layers=1"]


@pytest.fixture(scope="module", autouse=True)
def quick_runs():
    """Steps are traced here: dtypes are promoted otherwise than eagerly.

    keras-hub's head for masked tokens does not run eagerly in bfloat16.
    """
    with small_dev_set():
        yield


@pytest.fixture(scope="module")
def run(finished_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("mixed") / "run"
    settings = smoke.distillation(RECIPES["tinybert"])
    settings = dataclasses.replace(
        override(settings, [f"data.max_train_rows={ROWS}"]),
        teacher=str(finished_run / "teacher_run"),
        dtype_policy="mixed_bfloat16",
        stages=settings.stages[:1],
    )
    distill(settings, path)
    return path


def test_student_is_kept_in_float32(run):
    student = keras_hub.models.TextClassifier.from_preset(str(run / "student"))
    assert student.dtype_policy.name == "float32"
    assert student.backbone.dtype_policy.name == "float32"


def test_losses_are_near_those_in_float32(run, finished_run):
    for epoch in read_events(run, "epoch"):
        assert np.isfinite(list(epoch["logs"].values())).all()
    (first,) = (
        epoch["logs"]["hidden_state_mse"]
        for epoch in read_events(run, "epoch")
        if epoch["stage"] == "intermediate_layer"
    )
    (expected,) = (
        epoch["logs"]["hidden_state_mse"]
        for epoch in read_events(finished_run, "epoch")
        if epoch["stage"] == "intermediate_layer"
    )
    # The same student on the first half of the steps.
    assert first == pytest.approx(expected, rel=0.3)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    (stage,) = smoke.PRETRAINING.stages
    settings = override(
        dataclasses.replace(
            smoke.PRETRAINING,
            stages=(dataclasses.replace(stage, batch_size=512),),
            dtype_policy="mixed_bfloat16",
        ),
        SMALL_TEXT,
    )
    path = tmp_path_factory.mktemp("pretrained") / "run"
    pretrain(settings, path)
    return path


def test_pretraining_in_mixed_precision_leaves_float32(pretrained):
    loaded = models.load_masked_lm(pretrained)
    assert loaded.model.dtype_policy.name == "float32"


@pytest.mark.large
def test_general_distillation_keeps_what_it_trained(pretrained, tmp_path):
    (stage,) = RECIPES["tinybert"].stages_on_text()
    settings = override(
        dataclasses.replace(
            smoke.PRETRAINING,
            teacher=str(pretrained),
            stages=(dataclasses.replace(stage, epochs=1, batch_size=64),),
            dtype_policy="mixed_bfloat16",
        ),
        SMALL_TEXT,
    )
    path = tmp_path / "run"
    pretrain(settings, path)
    encoder, _ = models.load_encoder(path)
    assert encoder.dtype_policy.name == "float32"
    kept = encoder.get_weights()
    (final,) = path.glob(f"checkpoints/student/{stage.name}/final*")
    encoder.load_weights(final)
    for found, expected in zip(kept, encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["sequence", "tokens", "multiple_choice"])
def test_another_policy_changes_the_precision_alone(kind):
    backbone = keras_hub.models.BertBackbone(
        20, 1, 2, 8, 16, dropout=0.0, max_sequence_length=6
    )
    model = models.add_head(backbone, Head(kind, 2))
    mixed = models.in_policy(model, "mixed_bfloat16")
    x = {
        "token_ids": np.arange(12).reshape(2, 6),
        "segment_ids": np.zeros((2, 6), "int32"),
        "padding_mask": np.ones((2, 6), "int32"),
    }
    expected = np.asarray(model(x))
    found = mixed(x)
    assert found.dtype.name == "bfloat16"
    np.testing.assert_allclose(
        np.asarray(found, "float32"), expected, atol=0.05
    )
    back = models.in_policy(mixed, "float32")
    np.testing.assert_array_equal(np.asarray(back(x)), expected)
    assert models.in_policy(model, "float32") is model
