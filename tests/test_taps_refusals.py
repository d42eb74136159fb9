"""Models that cannot be tapped, and the messages for them."""

import keras
import keras_hub
import pytest
from encoders import encoder
from helpers import TinyBackbone, batch, bert

from kdkit import taps


@pytest.mark.parametrize(
    ("tap", "message"),
    [
        ("attention_scores", "Unknown tap: 'attention_scores'"),
        ("pooled_output", "not available for.*Available taps.*'hidden_states'"),
    ],
)
def test_tapped_refuses_taps_that_are_not_there(tap, message):
    with pytest.raises(ValueError, match=message):
        taps.tapped(encoder("distil_bert"), ["logits", tap])


def test_tapped_refuses_logits_of_a_backbone():
    with pytest.raises(ValueError, match="logits need a head"):
        taps.tapped(bert(num_classes=None), ["logits"])


def test_tapped_refuses_blocks_of_an_unknown_family():
    opt = keras_hub.models.OPTBackbone(
        vocabulary_size=9,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
    )
    with pytest.raises(ValueError, match="families .*'albert'.*logits need"):
        taps.tapped(opt, ["hidden_states"])


def test_tapped_refuses_blocks_that_run_in_another_order():
    backbone = TinyBackbone()
    backbone.transformer_layers = backbone.transformer_layers[::-1]
    with pytest.raises(ValueError, match="Expected: .*block_1', 'block_0'"):
        taps.tapped(backbone, ["hidden_states"])


def test_tapped_refuses_what_is_no_model():
    with pytest.raises(ValueError, match="Expected a keras.Model"):
        taps.tapped("bert_base_en_uncased", ["logits"])


def test_tapped_refuses_missing_inputs():
    run = taps.tapped(bert(), ["logits"])
    x = batch()
    del x["segment_ids"]
    with pytest.raises(ValueError, match=r"Add \['segment_ids'\]"):
        run(x)


@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_tapped_refuses_outputs_that_are_no_logits(activation):
    task = keras_hub.models.BertTextClassifier(
        bert(num_classes=None), num_classes=2, activation=activation
    )
    inputs = keras.Input((4,))
    scores = keras.layers.Dense(2)(inputs)
    for model in (
        task,
        keras.Model(inputs, keras.layers.Activation(activation)(scores)),
    ):
        with pytest.raises(ValueError, match=f"ends it with {activation}"):
            taps.tapped(model, ["logits"])


def test_tapped_refuses_a_softmax_layer():
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(2), keras.layers.Softmax()]
    )
    with pytest.raises(ValueError, match="ends it with softmax"):
        taps.tapped(model, ["logits"])


def test_only_the_layer_that_makes_the_output_must_be_linear():
    inputs = keras.Input((4,))
    scores = keras.layers.Dense(2, activation="relu")(inputs)
    model = keras.Model(inputs, keras.ops.multiply(scores, -1.0))
    assert taps.describe(model).num_classes == 2


def test_tapped_refuses_several_outputs():
    inputs = keras.Input((4,))
    outputs = [keras.layers.Dense(2)(inputs), keras.layers.Dense(3)(inputs)]
    with pytest.raises(ValueError, match="has several outputs"):
        taps.tapped(keras.Model(inputs, outputs), ["logits"])


class Subclassed(keras.Model):
    def call(self, inputs):
        return inputs


@pytest.mark.parametrize(
    "build", [Subclassed, lambda: keras.Sequential([keras.layers.Dense(2)])]
)
def test_tapped_refuses_models_without_known_outputs(build):
    with pytest.raises(ValueError, match="width of the logits .* is unknown"):
        taps.tapped(build(), ["logits"])


def test_tapped_refuses_a_backbone_that_runs_twice():
    backbone = encoder("distil_bert", num_classes=None)
    inputs = {
        name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
        for name, tensor in backbone.input.items()
    }
    states = keras.layers.Add()([backbone(inputs), backbone(inputs)])
    model = keras.Model(inputs, keras.layers.Dense(2)(states[:, 0]))
    with pytest.raises(ValueError, match="runs its backbone 2 times"):
        taps.tapped(model, ["hidden_states"])


def test_tapped_refuses_a_padding_mask_it_cannot_find():
    backbone = encoder("distil_bert", num_classes=None)
    token_ids = keras.Input((None,), dtype="int32", name="ids")
    mask = keras.Input((None,), dtype="int32", name="mask")
    states = backbone({"token_ids": token_ids, "padding_mask": mask})
    logits = keras.layers.Dense(2)(states[:, 0])
    model = keras.Model([token_ids, mask], logits)
    with pytest.raises(ValueError, match=r"'padding_mask'.*\['ids', 'mask'\]"):
        taps.tapped(model, ["hidden_states"])
    assert taps.tapped(model, ["logits"]).taps == ("logits",)
