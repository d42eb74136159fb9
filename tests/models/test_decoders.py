"""Taps of decoders, against their layers called by hand and NumPy."""

import numpy as np
import pytest
from kit.encoders import DECODERS
from kit.helpers import DECODER_SIZES, decoder, softmax, to_numpy

from kdkit import taps

BATCH, LENGTH, LAYERS, WIDTH = 3, 7, 2, 16
VOCABULARY = 40


def inputs():
    rng = np.random.default_rng(0)
    mask = np.ones((BATCH, LENGTH), "int32")
    mask[1, 5:] = 0
    ids = rng.integers(0, VOCABULARY, (BATCH, LENGTH)).astype("int32")
    return {"token_ids": ids, "padding_mask": mask}


@pytest.fixture(scope="module", params=DECODERS)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def model(family):
    return decoder(LAYERS, family=family)


@pytest.fixture(scope="module")
def outputs(model):
    run = taps.tapped(model, taps.describe(model).taps)
    return to_numpy(run(inputs(), training=False))


def test_describe_is_right(family, model):
    shape = taps.describe(model)
    heads = DECODER_SIZES.get(family, {}).get("num_heads", 2)
    assert shape == taps.ModelShape(VOCABULARY, LAYERS, WIDTH, heads)
    assert shape.family == family
    assert set(taps.TAPS) - set(shape.taps) == {
        "cls_states",
        "pooled_output",
        "sentence_embedding",
    }


def test_tapped_outputs_equal_the_models_own_exactly(model, outputs):
    x = inputs()
    np.testing.assert_array_equal(outputs["logits"], model(x, training=False))
    last = model.backbone.layer_norm(outputs["hidden_states"][-1])
    np.testing.assert_array_equal(last, model.backbone(x, training=False))


def rotated(vectors):
    """Rotary positions in NumPy: halves of (batch, length, heads, dim)."""
    _, length, _, dim = vectors.shape
    angles = np.outer(
        np.arange(length), 10_000.0 ** (-np.arange(0, dim, 2) / dim)
    )[:, None]
    first, second = np.split(vectors, 2, axis=-1)
    return np.concatenate(
        [
            first * np.cos(angles) - second * np.sin(angles),
            second * np.cos(angles) + first * np.sin(angles),
        ],
        axis=-1,
    )


def normalized(vectors, block, name):
    """Divided by the root of their mean square, and 1e-5."""
    norm = getattr(block._self_attention_layer, f"_{name}_dense_layer_norm")
    squares = np.mean(vectors**2, axis=-1, keepdims=True)
    return vectors / np.sqrt(squares + 1e-5) * to_numpy(norm.scale)


def layers_of(family, block):
    """The layers of a block by keras-hub's private names."""
    norm = "layer_norm" if family == "gpt2" else "layernorm"
    attention = block._self_attention_layer
    return (
        getattr(block, f"_self_attention_{norm}"),
        getattr(block, f"_feedforward_{norm}"),
        *(
            getattr(attention, f"_{name}_dense")
            for name in ("query", "key", "value", "output")
        ),
    )


def test_attention_and_states_are_what_the_layers_compute(
    family, model, outputs
):
    """Also of keys for several query heads, with rotary positions."""
    positions = np.arange(LENGTH)
    allowed = positions[:, None] >= positions[None, :]
    allowed = allowed & (inputs()["padding_mask"][:, None, None, :] == 1)
    for index, block in enumerate(model.backbone.transformer_layers):
        norm, inner_norm, *dense, output = layers_of(family, block)
        state = outputs["hidden_states"][index]
        own = [to_numpy(layer(norm(state))) for layer in dense]
        if family == "qwen3":
            own[:2] = map(normalized, own, [block] * 2, ["query", "key"])
        if family != "gpt2":
            assert own[1].shape[2] == 2
            own = [rotated(own[0]), rotated(own[1]), own[2]]
            own[1:] = (np.repeat(one, 2, axis=2) for one in own[1:])
        for tap, expected in zip(taps.VECTOR_TAPS, own, strict=True):
            np.testing.assert_allclose(
                outputs[tap][index], expected, 1e-5, 1e-5, err_msg=tap
            )
        queries, keys, values = own
        logits = np.einsum("bqhd,bkhd->bhqk", queries, keys)
        logits /= np.sqrt(queries.shape[-1])
        np.testing.assert_allclose(
            outputs["attention_logits"][index], logits, 1e-5, 1e-5
        )
        probs = softmax(np.where(allowed, logits, -1e9))
        np.testing.assert_allclose(
            outputs["attention_probs"][index], probs, atol=1e-6
        )
        state = state + output(np.einsum("bhqk,bkhd->bqhd", probs, values))
        inner = inner_norm(state)
        hidden = block._feedforward_intermediate_dense(inner)
        if family != "gpt2":
            gate = block._feedforward_gate_dense(inner)
            hidden = hidden * block.activation(gate)
        np.testing.assert_allclose(
            outputs["hidden_states"][index + 1],
            state + block._feedforward_output_dense(hidden),
            *(1e-5, 1e-5),
        )
