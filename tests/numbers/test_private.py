"""Pins the private attributes of Keras and keras-hub that kdkit reads."""

import keras
import keras_hub
import pytest
from kit.encoders import encoder
from kit.helpers import bert, decoder

from kdkit.taps import private


def test_a_transformer_decoder_has_its_parts():
    block = keras_hub.layers.TransformerDecoder(12, 2)
    states = keras.ops.ones((1, 3, 8))
    block(states, states)
    for attention in (
        private.self_attention(block),
        private.cross_attention(block),
    ):
        projections = private.projections(attention)
        shapes = [tuple(layer.kernel.shape) for layer in projections]
        assert shapes == [*[(8, 2, 4)] * 3, (2, 4, 8)]
    for part in ("self_attention", "cross_attention", "feedforward"):
        assert private.layer_norm(block, part).epsilon == 1e-5
        assert isinstance(private.dropout(block, part), keras.layers.Dropout)
    layers = private.feed_forward(block)
    assert (layers.intermediate.units, layers.output.units) == (12, 8)
    assert layers.gate is None
    with pytest.raises(AttributeError, match="_head_layernorm"):
        private.layer_norm(block, "head")


def test_a_transformer_encoder_has_its_parts():
    block = encoder("bert").backbone.transformer_layers[0]
    attention = private.self_attention(block)
    assert private.projections(attention).query.kernel.shape == (16, 2, 8)
    assert hasattr(attention, private.ATTENTION)
    assert not private.is_rematerialized(block)
    assert private.layer_norm(block, "feedforward").epsilon == 1e-12
    assert private.feed_forward(block).intermediate.units == 24


def test_a_llama_block_has_its_parts():
    block = decoder(1, family="llama3").backbone.transformer_layers[0]
    assert hasattr(private.self_attention(block), private.ATTENTION)
    projections = private.projections(private.self_attention(block))
    shapes = [tuple(layer.kernel.shape) for layer in projections]
    assert shapes == [(16, 4, 4), (16, 2, 4), (16, 2, 4), (4, 4, 16)]
    assert private.layer_norm(block, "self_attention").epsilon == 1e-6
    assert private.layer_norm(block, "feedforward").epsilon == 1e-6
    assert isinstance(
        private.dropout(block, "self_attention"), keras.layers.Dropout
    )
    units = [layer.units for layer in private.feed_forward(block)]
    assert units == [24, 16, 24]


def test_a_masked_lm_head_has_its_layers():
    backbone = encoder("bert", num_classes=None)
    head = keras_hub.models.BertMaskedLM(backbone).masked_lm_head
    dense, layer_norm = private.masked_lm_layers(head)
    assert (dense.units, layer_norm.epsilon) == (16, 1e-5)


def test_a_tensor_names_the_operation_that_made_it():
    model = bert()
    operation, number, (source,) = private.made_by(model.output)
    assert (operation.name, number) == ("logits", 0)
    assert source.shape == (None, 8)
    (*_, inputs) = private.made_by(model.input["token_ids"])
    assert not inputs


def test_a_model_lists_its_layers():
    layers = [keras.layers.Dense(2), keras.layers.Flatten()]
    model = keras.Sequential([keras.Input((3,)), *layers])
    found = private.sublayers(model)
    assert all(any(one is layer for one in found) for layer in layers)
