"""A decoder that reads token by token predicts as on whole texts."""

import keras
import keras_hub
import numpy as np
import pytest
from kit.helpers import decoder, to_numpy

from kdkit import generation
from kdkit.models.families import DECODERS, DecoderBlock

BATCH, LENGTH, LAYERS, ROOM = 3, 7, 2, 9


@pytest.fixture(scope="module", params=DECODERS)
def model(request):
    return decoder(LAYERS, family=request.param)


def texts():
    rng = np.random.default_rng(0)
    return rng.integers(0, 40, (BATCH, LENGTH)).astype("int32")


def read(step, token_ids, filling=0.0):
    """What a step returns at every position, with the cache kept outside."""
    cache = {
        name: np.full((BATCH, *step.cache_shape), filling, "float32")
        for names in step.cache_names
        for name in names
    }
    outputs = []
    for position, tokens in enumerate(token_ids.T):
        output = to_numpy(step(tokens, position, cache))
        for index, (keys, values) in enumerate(step.cache_names):
            cache[keys][:, :, position] = output["new_keys"][index]
            cache[values][:, :, position] = output["new_values"][index]
        outputs.append(output)
    return outputs


def test_every_position_has_the_logits_of_the_whole_text(model):
    token_ids = texts()
    outputs = read(generation.DecoderStep(model, ROOM), token_ids)
    whole = model({"token_ids": token_ids, "padding_mask": token_ids >= 0})
    logits = np.stack([output["logits"] for output in outputs], axis=1)
    np.testing.assert_allclose(logits, whole, atol=1e-5)


def test_what_stands_behind_a_position_does_not_count(model):
    step = generation.DecoderStep(model, ROOM)
    for empty, full in zip(
        read(step, texts()), read(step, texts(), filling=1e6), strict=True
    ):
        np.testing.assert_array_equal(empty["logits"], full["logits"])


@pytest.mark.parametrize("normalize_first", [True, False])
def test_a_block_is_the_one_of_keras_hub(normalize_first):
    """Pins the private names, in either order of the normalisations."""
    block = keras_hub.layers.TransformerDecoder(
        intermediate_dim=24, num_heads=2, normalize_first=normalize_first
    )
    states = np.random.default_rng(0).normal(size=(BATCH, LENGTH, 16))
    states = states.astype("float32")
    block(states)
    for weight in block.trainable_weights:
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
    expected = to_numpy(block(states))
    keys, values = np.zeros((2, BATCH, 2, ROOM, 8), "float32")
    for position in range(LENGTH):
        output, key, value = DecoderBlock(block).step(
            states[:, position : position + 1],
            keys,
            values,
            np.arange(ROOM) < position,
            position,
        )
        keys[:, :, position], values[:, :, position] = (
            key[:, :, 0],
            value[:, :, 0],
        )
        np.testing.assert_allclose(
            output[:, 0], expected[:, position], atol=1e-5
        )


def test_a_decoder_without_positions_has_any_length():
    model = decoder(1, family="llama3")
    assert generation.DecoderStep(model, 5000).sequence_length == 5000
