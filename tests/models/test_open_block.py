"""Blocks of encoder-decoders taken apart (goes with taps/rewiring.py)."""

import keras
import keras_hub
import numpy as np
import pytest
from kit.helpers import with_random_weights

from kdkit.taps.rewiring import OpenBlock

BATCH, SOURCE, TARGET, WIDTH = 3, 7, 5, 8


@pytest.mark.parametrize("normalize_first", [False, True])
def test_a_block_taken_apart_gives_what_it_gives_whole(normalize_first):
    """Pins the private names of `TransformerDecoder`."""
    block = keras_hub.layers.TransformerDecoder(
        12, 2, normalize_first=normalize_first
    )
    draw = np.random.default_rng(0).normal
    arguments = {
        "decoder_sequence": draw(size=(BATCH, TARGET, WIDTH)),
        "encoder_sequence": draw(size=(BATCH, SOURCE, WIDTH)),
        "encoder_padding_mask": np.arange(SOURCE) < [[7], [5], [3]],
        "decoder_padding_mask": np.arange(TARGET) < [[5], [5], [2]],
    }
    arguments = keras.tree.map_structure(keras.ops.convert_to_tensor, arguments)
    block(**arguments)
    with_random_weights(block)
    own = block(**arguments)
    received, _ = OpenBlock(block)(**arguments)
    np.testing.assert_allclose(received, own, atol=1e-6)
