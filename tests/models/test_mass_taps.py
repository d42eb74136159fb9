"""Taps of encoder-decoders, against the layers called by hand."""

import keras_hub
import numpy as np
import pytest
from kit.helpers import mass, softmax, to_numpy, with_random_weights

from kdkit import taps

BATCH, SOURCE, TARGET, WIDTH, HEADS = 3, 7, 5, 8, 2
ENCODER_LAYERS, DECODER_LAYERS, VOCABULARY = 1, 2, 30


def inputs():
    """Rows with and without padding, which is some token."""
    rng = np.random.default_rng(1)
    x = {
        "encoder_token_ids": rng.integers(4, VOCABULARY, (BATCH, SOURCE)),
        "decoder_token_ids": rng.integers(4, VOCABULARY, (BATCH, TARGET)),
        "encoder_padding_mask": np.arange(SOURCE) < [[7], [5], [3]],
        "decoder_padding_mask": np.arange(TARGET) < [[5], [5], [2]],
        "decoder_positions": np.array(
            [[0, 1, 2, 3, 4]] * 2 + [[3, 4, 0, 0, 0]]
        ),
    }
    return {name: value.astype("int32") for name, value in x.items()}


@pytest.fixture(scope="module")
def model():
    depths = ENCODER_LAYERS, DECODER_LAYERS
    return with_random_weights(mass(VOCABULARY, *depths, HEADS, WIDTH, 12))


@pytest.fixture(scope="module")
def outputs(model):
    run = taps.tapped(model, taps.describe(model).taps)
    return to_numpy(run(inputs(), training=False))


def test_describe_is_right(model, outputs):
    shape = taps.describe(model)
    assert shape == taps.ModelShape(
        num_classes=VOCABULARY,
        hidden_dim=WIDTH,
        num_heads=HEADS,
        encoder_num_layers=ENCODER_LAYERS,
        decoder_num_layers=DECODER_LAYERS,
    )
    assert tuple(outputs) == shape.taps == ("logits", *taps.SEQ2SEQ_TAPS)


def test_outputs_and_ends_of_the_halves_are_the_models_own(model, outputs):
    x = inputs()
    np.testing.assert_array_equal(outputs["logits"], model(x))
    backbone = model.backbone
    own = backbone(x)
    for half in ("encoder", "decoder"):
        states = outputs[f"{half}_hidden_states"]
        np.testing.assert_array_equal(
            states[-1], own[f"{half}_sequence_output"]
        )
        positions = x["decoder_positions"]
        if half == "encoder":
            positions = np.arange(SOURCE)
        table = getattr(backbone, f"{half}_position_embedding")
        embedded = (
            to_numpy(backbone.token_embedding(x[f"{half}_token_ids"]))
            + to_numpy(table.position_embeddings)[positions]
        )
        layer_norm = getattr(backbone, f"{half}_embeddings_layer_norm")
        np.testing.assert_allclose(states[0], layer_norm(embedded), atol=1e-5)
        np.testing.assert_array_equal(
            outputs[f"{half}_embedding_output"], states[0]
        )


def check_attention(part, index, outputs, queries, keys, seen):
    """Compares a block's attention with that of queries and keys."""
    logits = np.einsum("bqhd,bkhd->bhqk", queries, keys)
    logits /= np.sqrt(WIDTH // HEADS)
    received = outputs[f"{part}_attention_logits"][index]
    np.testing.assert_allclose(received, logits, atol=1e-5)
    probs = softmax(np.where(seen, logits, -1e9))
    received = outputs[f"{part}_attention_probs"][index]
    np.testing.assert_allclose(received, probs, atol=1e-6)
    return probs


@pytest.mark.parametrize("half", ["encoder", "decoder"])
def test_tapped_attention_is_what_the_blocks_compute(model, outputs, half):
    """Pins the private names: attention by hand gives the blocks' outputs."""
    x = inputs()
    of_source = x["encoder_padding_mask"][:, None, None, :] == 1
    seen = of_source
    if half == "decoder":
        seen = np.tril(np.ones((TARGET, TARGET), bool))
        seen = seen & (x["decoder_padding_mask"][:, None, None, :] == 1)
    encoded = outputs["encoder_hidden_states"][-1]
    blocks = getattr(model.backbone, f"{half}_transformer_layers")
    for index, block in enumerate(blocks):
        state = outputs[f"{half}_hidden_states"][index]
        attention = block._self_attention_layer
        queries, keys, values = (
            to_numpy(project(state))
            for project in (
                attention.query_dense,
                attention.key_dense,
                attention.value_dense,
            )
        )
        for name, own in (
            ("queries", queries),
            ("keys", keys),
            ("values", values),
        ):
            received = outputs[f"{half}_{name}"][index]
            np.testing.assert_allclose(received, own, atol=1e-6)
        probs = check_attention(half, index, outputs, queries, keys, seen)
        read = attention.output_dense(
            np.einsum("bhqk,bkhd->bqhd", probs, values)
        )
        state = block._self_attention_layer_norm(state + read)
        if half == "decoder":
            attention = block._cross_attention_layer
            queries = to_numpy(attention.query_dense(state))
            keys = to_numpy(attention.key_dense(encoded))
            values = to_numpy(attention.value_dense(encoded))
            probs = check_attention(
                "cross", index, outputs, queries, keys, of_source
            )
            read = attention.output_dense(
                np.einsum("bhqk,bkhd->bqhd", probs, values)
            )
            state = block._cross_attention_layer_norm(state + read)
        inner = block._feedforward_intermediate_dense(state)
        state = block._feedforward_layer_norm(
            state + block._feedforward_output_dense(inner)
        )
        np.testing.assert_allclose(
            outputs[f"{half}_hidden_states"][index + 1], state, atol=1e-5
        )


def test_dropout_is_that_of_the_models_own_forward_pass(model):
    run = taps.tapped(model, ["logits", "cross_attention_logits"])
    seeds = [variable.numpy() for variable in model.non_trainable_variables]
    own = to_numpy(model(inputs(), training=True))
    for variable, seed in zip(
        model.non_trainable_variables, seeds, strict=True
    ):
        variable.assign(seed)
    found = run(inputs(), training=True)["logits"]
    np.testing.assert_array_equal(found, own)
    assert not np.allclose(own, model(inputs(), training=False))


def test_bart_has_the_taps_of_its_halves():
    bart = keras_hub.models.BartBackbone(VOCABULARY, 1, HEADS, WIDTH, 12)
    x = inputs()
    del x["decoder_positions"]
    found = taps.tapped(bart, taps.describe(bart).taps)(x)
    assert tuple(found) == taps.SEQ2SEQ_TAPS
    own = bart(x)["decoder_sequence_output"]
    np.testing.assert_array_equal(found["decoder_hidden_states"][-1], own)


@pytest.mark.parametrize("tap", ["hidden_states", "cross_queries", "logits"])
def test_what_an_encoder_decoder_lacks_is_refused(model, tap):
    with pytest.raises(ValueError, match=f"'{tap}'"):
        taps.tapped(model.backbone, [tap])
