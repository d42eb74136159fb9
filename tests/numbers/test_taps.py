"""Taps: exact, complete, in one forward pass, without changes to a model."""

import json

import keras
import numpy as np
import pytest
from keras_hub import models as hub
from kit.helpers import (
    LENGTH,
    VOCABULARY_SIZE,
    TinyBackbone,
    batch,
    bert,
    classifier,
    softmax,
    spread_weights,
    to_numpy,
)

from kdkit import taps

BATCH, LAYERS, HEADS, WIDTH, CLASSES = 4, 2, 2, 8, 3


def inputs_of(model):
    everything = batch(BATCH)
    return {name: everything[name] for name in model.input}


def bert_task():
    return bert(LAYERS, WIDTH, HEADS, CLASSES, dropout=0.1)


def distil_bert():
    return hub.DistilBertBackbone(
        vocabulary_size=VOCABULARY_SIZE,
        num_layers=LAYERS,
        num_heads=HEADS,
        hidden_dim=WIDTH,
        intermediate_dim=16,
        max_sequence_length=LENGTH,
    )


# models/test_families.py has the tasks, backbones and heads of every family.
BUILDERS = {
    "bert_task": bert_task,
    "own_pre_norm_backbone": lambda: TinyBackbone(LAYERS, normalize_first=True),
    "own_functional_model": lambda: classifier(distil_bert()),
}


@pytest.fixture(scope="module", params=BUILDERS)
def model(request):
    model = BUILDERS[request.param]()
    spread_weights(model)
    return model


@pytest.fixture(scope="module")
def outputs(model):
    """All taps of a model on one batch."""
    run = taps.tapped(model, taps.describe(model).taps)
    return to_numpy(run(inputs_of(model), training=False))


def test_tapped_outputs_equal_the_models_own_exactly(model, outputs):
    own = to_numpy(model(inputs_of(model), training=False))
    backbone = taps.find_backbone(model)
    if model is not backbone:
        np.testing.assert_array_equal(outputs["logits"], own)
        own = to_numpy(backbone(inputs_of(backbone), training=False))
    if isinstance(own, dict):
        pooled = own["pooled_output"]
        np.testing.assert_array_equal(outputs["pooled_output"], pooled)
        own = own["sequence_output"]
    np.testing.assert_array_equal(outputs["hidden_states"][-1], own)


def test_taps_have_the_documented_names_and_shapes(model, outputs):
    assert tuple(outputs) == taps.describe(model).taps
    states = (BATCH, LENGTH, WIDTH)
    vectors = [(BATCH, LENGTH, HEADS, WIDTH // HEADS)] * LAYERS
    matrices = [(BATCH, HEADS, LENGTH, LENGTH)] * LAYERS
    expected = {
        "embedding_output": states,
        "hidden_states": [states] * (LAYERS + 1),
        "cls_states": [(BATCH, WIDTH)] * (LAYERS + 1),
        "attention_logits": matrices,
        "attention_probs": matrices,
        "queries": vectors,
        "keys": vectors,
        "values": vectors,
        "pooled_output": (BATCH, WIDTH),
        "logits": (BATCH, CLASSES),
    }
    for tap, received in outputs.items():
        if isinstance(received, list):
            received = [tensor.shape for tensor in received]
            assert received == expected[tap]
        else:
            assert received.shape == expected[tap]


def test_taps_agree_with_each_other(outputs):
    states = outputs["hidden_states"]
    np.testing.assert_array_equal(outputs["embedding_output"], states[0])
    for state, cls_state in zip(states, outputs["cls_states"], strict=True):
        np.testing.assert_array_equal(cls_state, state[:, 0])
    for queries, keys, logits in zip(
        outputs["queries"],
        outputs["keys"],
        outputs["attention_logits"],
        strict=True,
    ):
        products = np.einsum("bqhd,bkhd->bhqk", queries, keys)
        np.testing.assert_allclose(
            logits,
            products / np.sqrt(WIDTH // HEADS),
            rtol=1e-4,
            atol=1e-5,
        )


def test_tapped_attention_is_what_the_blocks_compute(model, outputs):
    """Pins the private names: the layers' own probabilities and outputs."""
    backbone = taps.find_backbone(model)
    mask = inputs_of(model)["padding_mask"]
    for index, block in enumerate(backbone.transformer_layers):
        own_state, own_probs = block(
            outputs["hidden_states"][index],
            padding_mask=mask,
            return_attention_scores=True,
        )
        np.testing.assert_allclose(
            outputs["attention_probs"][index], own_probs, atol=1e-6
        )
        np.testing.assert_allclose(
            outputs["hidden_states"][index + 1], own_state, atol=1e-5
        )
        masked = np.where(
            mask[:, None, None, :] == 1,
            outputs["attention_logits"][index],
            -np.inf,
        )
        np.testing.assert_allclose(softmax(masked), own_probs, atol=1e-6)


def test_attention_of_a_row_of_padding_is_the_blocks_own():
    model = bert(LAYERS, WIDTH, HEADS, num_classes=None)
    x = batch(BATCH)
    x["padding_mask"][2] = 0
    outputs = taps.tapped(model, ["attention_probs", "hidden_states"])(x)
    block = model.transformer_layers[0]
    _, own_probs = block(
        outputs["hidden_states"][0],
        padding_mask=x["padding_mask"],
        return_attention_scores=True,
    )
    np.testing.assert_allclose(
        outputs["attention_probs"][0], own_probs, atol=1e-6
    )


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_taps_of_half_precision_are_finite_and_exact(policy):
    model = bert(dtype=policy)
    x = batch(BATCH)
    x["padding_mask"][2] = 0
    every_tap = taps.describe(model).taps
    outputs = to_numpy(
        keras.tree.map_structure(
            lambda tensor: keras.ops.cast(tensor, "float32"),
            taps.tapped(model, every_tap)(x, training=False),
        )
    )
    np.testing.assert_array_equal(
        outputs["logits"], keras.ops.cast(model(x, training=False), "float32")
    )
    for tensor in keras.tree.flatten(outputs):
        assert np.isfinite(tensor).all()


def test_mask_may_be_of_any_dtype():
    run = taps.tapped(bert_task(), ["logits", "attention_probs"])
    x = batch(BATCH)
    expected = to_numpy(run(x))
    for dtype in ("bool", "float32", "int64"):
        received = run(dict(x, padding_mask=x["padding_mask"].astype(dtype)))
        keras.tree.map_structure(
            np.testing.assert_array_equal, to_numpy(received), expected
        )


class Unbuildable(keras.optimizers.SGD):
    def build(self, variables):
        raise RuntimeError("slots for a model that is only tapped")


def test_tapping_leaves_the_model_as_it_was():
    model = bert_task()
    model.compile(optimizer=Unbuildable(), loss="mse")
    model.get_layer("classifier_dropout").trainable = False
    model.backbone.transformer_layers[0].trainable = False

    def state():
        return {
            "config": json.dumps(model.get_config(), default=str),
            "weights": [id(weight) for weight in model.weights],
            "trainable": [layer.trainable for layer in model.layers],
            "trainable_weights": [
                weight.path for weight in model.trainable_weights
            ],
            "outputs": [id(layer.output) for layer in model.layers],
            "losses": len(model.losses),
            "optimizer": id(model.optimizer),
        }

    x = batch(BATCH)
    values = model.get_weights()
    expected = to_numpy(model(x, training=False))
    before = state()
    run = taps.tapped(model, taps.describe(model).taps)
    run(x, training=True)
    assert state() == before
    keras.tree.map_structure(
        np.testing.assert_array_equal, model.get_weights(), values
    )
    np.testing.assert_array_equal(model(x, training=False), expected)
    # The graph can still be cut at any layer.
    head = keras.Model(model.input, model.get_layer("logits").output)
    np.testing.assert_array_equal(head(x, training=False), expected)


def test_dropout_is_on_in_training_and_later_weights_are_seen():
    model, x = bert_task(), batch(BATCH)
    run = taps.tapped(model, ["logits", "hidden_states"])
    quiet, noisy = (
        to_numpy(run(x, training=training)["logits"])
        for training in (False, True)
    )
    assert not np.allclose(quiet, noisy)
    np.testing.assert_array_equal(run(x)["logits"], quiet)
    spread_weights(model, seed=1)
    after = to_numpy(run(x)["logits"])
    assert not np.allclose(quiet, after)
    np.testing.assert_array_equal(after, model(x, training=False))


@pytest.mark.parametrize("training", [False, True])
def test_all_taps_take_one_forward_pass(training):
    backbone = TinyBackbone()
    model = classifier(backbone)
    run = taps.tapped(model, taps.describe(model).taps)
    before = backbone.counts()
    run(inputs_of(model), training=training)
    added = np.subtract(backbone.counts(), before)
    assert added.tolist() == [[1, int(training)]] * LAYERS


def test_inputs_that_the_model_lacks_are_left_out():
    model = hub.DistilBertTextClassifier(distil_bert(), num_classes=CLASSES)
    x = batch(BATCH)
    assert "segment_ids" not in model.input
    outputs = taps.tapped(model, ["logits", "hidden_states"])(x)
    del x["segment_ids"]
    np.testing.assert_array_equal(outputs["logits"], model(x, training=False))


def test_plain_models_have_logits_alone():
    inputs = keras.Input((4,))
    functional = keras.Model(inputs, keras.layers.Dense(3)(inputs))
    sequential = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    x = np.ones((2, 4), "float32")
    for model in (functional, sequential):
        assert taps.describe(model) == taps.ModelShape(num_classes=3)
        outputs = taps.tapped(model, ["logits"])(x)
        assert list(outputs) == ["logits"]
        np.testing.assert_array_equal(outputs["logits"], model(x))
