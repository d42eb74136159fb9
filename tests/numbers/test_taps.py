"""Taps: exact, complete, in one forward pass, without changes to a model."""

import json

import keras
import keras_hub
import numpy as np
import pytest
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
SIZES = {
    "vocabulary_size": VOCABULARY_SIZE,
    "num_layers": LAYERS,
    "num_heads": HEADS,
    "hidden_dim": WIDTH,
    "intermediate_dim": 16,
    "max_sequence_length": LENGTH,
}


def inputs_of(model):
    everything = batch(BATCH) | {"mask_positions": np.array([[1, 2]] * BATCH)}
    return {name: everything[name] for name in model.input}


def bert_task():
    return bert(LAYERS, WIDTH, HEADS, CLASSES, dropout=0.1)


def bert_backbone():
    return bert(LAYERS, WIDTH, HEADS, num_classes=None, dropout=0.1)


def bert_masked_lm():
    backbone = keras_hub.models.BertBackbone(**SIZES)
    return keras_hub.models.BertMaskedLM(backbone)


def distil_bert_task():
    return keras_hub.models.DistilBertTextClassifier(
        distil_bert_backbone(), num_classes=CLASSES
    )


def roberta_task():
    backbone = keras_hub.models.RobertaBackbone(**SIZES)
    return keras_hub.models.RobertaTextClassifier(backbone, num_classes=CLASSES)


def electra_backbone():
    sizes = dict(SIZES, vocab_size=VOCABULARY_SIZE, embedding_dim=4)
    del sizes["vocabulary_size"]
    return keras_hub.models.ElectraBackbone(**sizes)


def own_pre_norm_backbone():
    return TinyBackbone(LAYERS, normalize_first=True)


def distil_bert_backbone():
    return keras_hub.models.DistilBertBackbone(**SIZES)


def own_functional_model():
    return classifier(distil_bert_backbone())


BUILDERS = [
    bert_task,
    bert_backbone,
    bert_masked_lm,
    distil_bert_task,
    roberta_task,
    electra_backbone,
    own_pre_norm_backbone,
    own_functional_model,
]


@pytest.fixture(scope="module", params=BUILDERS, ids=lambda f: f.__name__)
def model(request):
    model = request.param()
    spread_weights(model)
    return model


@pytest.fixture(scope="module")
def outputs(model):
    """All taps of a model on one batch."""
    shape = taps.describe(model)
    tapped = taps.tapped(model, shape.taps)
    return to_numpy(tapped(inputs_of(model), training=False))


def test_tapped_outputs_equal_the_models_own_exactly(model, outputs):
    own = to_numpy(model(inputs_of(model), training=False))
    backbone = taps.find_backbone(model)
    if model is not backbone:
        np.testing.assert_array_equal(outputs["logits"], own)
        own = to_numpy(
            backbone(
                {name: inputs_of(model)[name] for name in backbone.input},
                training=False,
            )
        )
    states = outputs["hidden_states"]
    if not isinstance(own, dict):
        np.testing.assert_array_equal(states[-1], own)
    else:
        np.testing.assert_array_equal(states[-1], own["sequence_output"])
        np.testing.assert_array_equal(
            outputs["pooled_output"], own["pooled_output"]
        )


def test_taps_have_the_documented_names_and_shapes(model, outputs):
    assert tuple(outputs) == taps.describe(model).taps
    states = (BATCH, LENGTH, WIDTH)
    vectors = (BATCH, LENGTH, HEADS, WIDTH // HEADS)
    matrices = (BATCH, HEADS, LENGTH, LENGTH)
    expected = {
        "embedding_output": states,
        "hidden_states": [states] * (LAYERS + 1),
        "cls_states": [(BATCH, WIDTH)] * (LAYERS + 1),
        "attention_logits": [matrices] * LAYERS,
        "attention_probs": [matrices] * LAYERS,
        "queries": [vectors] * LAYERS,
        "keys": [vectors] * LAYERS,
        "values": [vectors] * LAYERS,
    }
    for tap, shapes in expected.items():
        received = outputs[tap]
        if isinstance(received, list):
            assert [tensor.shape for tensor in received] == shapes
        else:
            assert received.shape == shapes


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
    model = bert_backbone()
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


def test_tapping_leaves_the_model_as_it_was():
    model = bert_task()
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


@keras.saving.register_keras_serializable(package="kdkit_tests")
class Unbuildable(keras.optimizers.SGD):
    def build(self, variables):
        raise RuntimeError("slots for a model that is only tapped")


def test_tapping_a_compiled_model_builds_no_optimizer():
    model = bert_task()
    model.compile(optimizer=Unbuildable(), loss="mse")
    taps.tapped(model, ["logits", "hidden_states"])
    assert isinstance(model.optimizer, Unbuildable)


def test_tapped_model_sees_later_changes_of_the_weights():
    model = bert_task()
    run = taps.tapped(model, ["logits", "hidden_states"])
    x = batch(BATCH)
    before = to_numpy(run(x)["logits"])
    spread_weights(model, seed=1)
    after = to_numpy(run(x)["logits"])
    assert not np.allclose(before, after)
    np.testing.assert_array_equal(after, model(x, training=False))


def test_training_turns_dropout_on():
    run = taps.tapped(bert_task(), ["logits", "hidden_states"])
    x = batch(BATCH)
    quiet = to_numpy(run(x, training=False))
    noisy = to_numpy(run(x, training=True))
    assert not np.allclose(quiet["logits"], noisy["logits"])
    np.testing.assert_array_equal(to_numpy(run(x))["logits"], quiet["logits"])


@pytest.mark.parametrize("training", [False, True])
def test_all_taps_take_one_forward_pass(training):
    backbone = TinyBackbone()
    model = classifier(backbone)
    run = taps.tapped(model, taps.describe(model).taps)
    before = backbone.counts()
    run(inputs_of(model), training=training)
    assert [
        (calls - old_calls, training_calls - old_training_calls)
        for (calls, training_calls), (old_calls, old_training_calls) in zip(
            backbone.counts(), before, strict=True
        )
    ] == [(1, int(training))] * LAYERS


def test_inputs_that_the_model_lacks_are_left_out():
    model = distil_bert_task()
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
