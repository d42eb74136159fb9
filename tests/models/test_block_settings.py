"""Settings of keras-hub's blocks and heads (goes with models/variants.py)."""

import keras_hub
import numpy as np
import pytest
from kit.encoders import encoder
from kit.helpers import decoder

from kdkit import models
from kdkit.models.block_settings import BlockSettings, activation_function
from kdkit.models.families import ALL_FAMILIES, FAMILIES, blocks_of
from kdkit.models.variants import (
    build_masked_lm,
    extra_settings,
    with_settings,
)

VALUES = np.linspace(-4, 4, 41).astype("float32")
RELU = {"activation": "relu", "layer_norm_epsilon": 1e-3}


def check(layer, activation, settings):
    expected = activation_function(settings.activation)(VALUES)
    np.testing.assert_allclose(activation(VALUES), expected, atol=1e-6)
    assert layer.layer_norm_epsilon == settings.layer_norm_epsilon


@pytest.mark.parametrize(
    "family",
    [name for name, one in ALL_FAMILIES.items() if one.block_settings],
)
def test_settings_of_keras_hubs_blocks_are_as_noted(family):
    made = encoder(family) if family in FAMILIES else decoder(2, family=family)
    backbone = models.backbone_of(made)
    own = ALL_FAMILIES[family].block_settings
    for block in blocks_of(backbone):
        check(block, block.activation, own)
    same = with_settings(
        backbone,
        {
            "activation": own.activation,
            "layer_norm_epsilon": own.layer_norm_epsilon,
        },
    )
    assert type(same) is type(backbone)
    assert extra_settings(with_settings(backbone, RELU)) == RELU
    assert extra_settings(backbone) == {}


@pytest.mark.parametrize(
    "family", [name for name, one in ALL_FAMILIES.items() if one.head_settings]
)
def test_settings_of_keras_hubs_heads_are_as_noted(family):
    backbone = encoder(family, num_classes=None)
    own = ALL_FAMILIES[family].head_settings
    head = models.language_model(backbone).masked_lm_head
    check(head, head.intermediate_activation, own)
    same = build_masked_lm(backbone, own)
    assert type(same).__module__.startswith(keras_hub.__name__)
    other = extra_settings(
        build_masked_lm(backbone, BlockSettings("relu", 0.1))
    )
    assert other == {"head_activation": "relu", "head_layer_norm_epsilon": 0.1}
