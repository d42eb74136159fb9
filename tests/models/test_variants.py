"""Models with an activation or epsilon that keras-hub's classes lack."""

import itertools
import json

import keras
import keras_hub
import numpy as np
import pytest
from kit.encoders import encoder, tokenizer
from kit.helpers import large_except

from kdkit.backends import with_policy
from kdkit.models import (
    Head,
    add_head,
    in_policy,
    language_model,
    load_classifier,
    load_encoder,
    load_masked_lm,
    save_encoder,
    save_language_model,
    save_preset,
    student,
)
from kdkit.models.block_settings import BlockSettings, activation_function
from kdkit.models.families import ALL_FAMILIES, FAMILIES, blocks_of
from kdkit.models.variants import (
    build_masked_lm,
    extra_settings,
    with_settings,
)

WITH_BLOCK_SETTINGS = [
    name for name, family in ALL_FAMILIES.items() if family.block_settings
]
WITH_HEAD_SETTINGS = [
    name for name, family in ALL_FAMILIES.items() if family.head_settings
]
EXACT = {"activation": "gelu"}
RELU = {"activation": "relu", "layer_norm_epsilon": 1e-3}
VALUES = np.linspace(-4, 4, 41).astype("float32")


def tiny(family):
    """The family's classifier or, of a decoder, backbone, with GELU swapped."""
    if family in FAMILIES:
        return encoder(family)
    return student(
        {
            "family": family,
            "num_layers": 2,
            "hidden_dim": 16,
            "num_heads": 2,
            "intermediate_dim": 24,
            "vocabulary_size": 20,
            "max_sequence_length": 12,
        }
    )


def backbone_of(model):
    return getattr(model, "backbone", model)


def inputs_of(model, length=6):
    ids = np.random.default_rng(1).integers(5, 20, (2, length))
    every = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
        "mask_positions": np.array([[1, 2], [0, 3]]),
    }
    return {name: every[name].astype("int32") for name in model.input}


def difference(one, other):
    results = [
        np.asarray(keras.tree.flatten(model(inputs_of(model)))[-1])
        for model in (one, other)
    ]
    return np.abs(results[0] - results[1]).max()


@pytest.mark.parametrize("family", WITH_BLOCK_SETTINGS)
def test_settings_of_keras_hubs_blocks_are_as_noted(family):
    """Pins `block_settings`, and that a copy with others computes others."""
    backbone = backbone_of(tiny(family))
    own = ALL_FAMILIES[family].block_settings
    expected = np.asarray(activation_function(own.activation)(VALUES))
    for block in blocks_of(backbone):
        np.testing.assert_allclose(
            block.activation(VALUES), expected, atol=1e-6
        )
        assert block.layer_norm_epsilon == own.layer_norm_epsilon
    same = with_settings(
        backbone,
        {
            "activation": own.activation,
            "layer_norm_epsilon": own.layer_norm_epsilon,
        },
    )
    assert type(same) is type(backbone)
    other = with_settings(backbone, RELU)
    assert difference(backbone, other) > 1e-3
    assert extra_settings(other) == RELU
    assert extra_settings(backbone) == {}


@pytest.mark.parametrize("family", WITH_HEAD_SETTINGS)
def test_settings_of_keras_hubs_heads_are_as_noted(family):
    backbone = encoder(family, num_classes=None)
    plain = language_model(backbone)
    own = ALL_FAMILIES[family].head_settings
    head = plain.masked_lm_head
    np.testing.assert_allclose(
        head.intermediate_activation(VALUES),
        activation_function(own.activation)(VALUES),
        atol=1e-6,
    )
    assert head.layer_norm_epsilon == own.layer_norm_epsilon
    assert type(build_masked_lm(backbone, own)) is type(plain)
    other = build_masked_lm(backbone, BlockSettings("relu", 1e-2))
    other.set_weights(plain.get_weights())
    assert difference(plain, other) > 1e-4


COPIES = {
    "get_config": lambda model: type(model).from_config(model.get_config()),
    "with_policy": lambda model: with_policy(
        with_policy(model, "mixed_bfloat16"), "float32"
    ),
    "in_policy": lambda model: in_policy(
        in_policy(model, "mixed_bfloat16"), "float32"
    ),
    "with_settings": lambda model: with_settings(model, EXACT),
}


@pytest.mark.parametrize(
    ("family", "how"),
    large_except(
        [*itertools.product(["bert", "albert"], COPIES)],
        *itertools.product(["bert"], COPIES),
        ("albert", "with_policy"),
    ),
)
def test_copies_have_the_activation(family, how):
    plain = tiny(family)
    model = with_settings(plain, EXACT)
    assert 1e-5 < difference(plain, model) < 0.1
    copy = COPIES[how](model)
    copy.set_weights(model.get_weights())
    assert difference(copy, model) == 0
    assert type(copy.backbone).__name__ == type(plain.backbone).__name__
    assert extra_settings(copy) == EXACT


def test_a_keras_file_has_the_activation(tmp_path):
    model = with_settings(tiny("bert"), EXACT)
    model.save(tmp_path / "model.keras")
    loaded = load_classifier(tmp_path / "model.keras", 3).model
    assert difference(loaded, model) == 0


def test_weights_have_the_same_names_in_files(tmp_path):
    """So that checkpoints of both forms are interchangeable."""
    plain = tiny("bert")
    model = with_settings(plain, EXACT)
    model.save_weights(tmp_path / "a.weights.h5")
    plain.set_weights([0 * value for value in plain.get_weights()])
    plain.load_weights(tmp_path / "a.weights.h5")
    assert difference(with_settings(plain, EXACT), model) == 0


@pytest.mark.parametrize(
    ("family", "kind"),
    large_except(
        [*itertools.product(["bert", "electra"], ["sequence", "tokens"])],
        *(("bert", "sequence"), ("electra", "tokens")),
    ),
)
def test_presets_keep_it_in_kdkit_json(family, kind, tmp_path):
    head = Head(kind, 3)
    backbone = with_settings(encoder(family, num_classes=None), EXACT)
    model = add_head(backbone, head)
    save_preset(model, tokenizer(family), tmp_path, 6, head)
    saved = json.loads((tmp_path / "kdkit.json").read_text())
    assert saved["activation"] == "gelu"
    assert "layer_norm_epsilon" not in saved
    loaded = load_classifier(tmp_path, head).model
    assert difference(loaded, model) == 0
    encoder_alone, _ = load_encoder(tmp_path)
    assert extra_settings(encoder_alone) == EXACT


@pytest.mark.parametrize("family", large_except(["bert", "albert"], "bert"))
def test_presets_load_without_kdkit_in_keras_hubs_form(family, tmp_path):
    plain = tiny(family)
    save_preset(with_settings(plain, EXACT), tokenizer(family), tmp_path, 6)
    loaded = keras_hub.models.TextClassifier.from_preset(str(tmp_path))
    assert type(loaded.backbone) is ALL_FAMILIES[family].backbone
    loaded.preprocessor = None
    assert difference(loaded, plain) == 0
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["module"].startswith("keras_hub")
    assert "hidden_activation" not in config["config"]


def test_a_preset_saved_over_another_has_its_own_settings(tmp_path):
    backbone = encoder("bert", num_classes=None)
    save_encoder(with_settings(backbone, RELU), tokenizer("bert"), tmp_path)
    save_encoder(backbone, tokenizer("bert"), tmp_path)
    loaded, _ = load_encoder(tmp_path)
    assert difference(loaded, backbone) == 0


def test_masked_lms_keep_the_settings_of_body_and_head(tmp_path):
    plain = encoder("albert", num_classes=None, vocabulary_size=30)
    backbone = with_settings(plain, EXACT)
    model = build_masked_lm(backbone, BlockSettings("gelu", 1e-12))
    settings = {**EXACT, "head_activation": "gelu"}
    settings["head_layer_norm_epsilon"] = 1e-12
    assert extra_settings(model) == settings
    copy = with_policy(with_policy(model, "mixed_bfloat16"), "float32")
    copy.set_weights(model.get_weights())
    assert difference(copy, model) == 0
    save_language_model(model, tokenizer("albert"), tmp_path, 6)
    loaded = load_masked_lm(tmp_path).model
    assert difference(loaded, model) == 0
    plain = keras_hub.models.MaskedLM.from_preset(str(tmp_path))
    assert type(plain) is keras_hub.models.AlbertMaskedLM
