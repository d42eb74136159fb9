"""Copies by a masked-language model with keras-hub's own head, word for word.

They change where predictions, draws or the order of either change: what a file
of copies was, a later version of kdkit would not make again.
"""

import keras_hub
import pytest
from kit.helpers import spread_weights

from kdkit.augmentation import (
    Augmentation,
    Augmenter,
    MaskedWords,
    PieceNeighbors,
)

WORDS = [
    "film", "play", "show", "plot", "cast", "scene",
    "fine", "dull", "warm", "slow", "bright", "flat",
]  # fmt: skip
PIECES = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS,
    "the", "is", "grip", "##ping", ",",
]  # fmt: skip
TEXTS = ["the film is gripping", "the warm, slow plot", "the"]
AT_ONCE = [
    ["the film is show", "the dull is gripping"],
    ["the warm, flat flat", "the dull, flat plot", "the warm, grip flat"],
    [],
]
SEQUENTIAL = [
    ["the film is grip", "the grip is gripping"],
    ["the warm, slow dull", "the flat, flat plot", "the warm, flat dull"],
    [],
]


@pytest.fixture(scope="module")
def parts():
    tokenizer = keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=True)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(PIECES),
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=16,
        dropout=0.0,
    )
    model = keras_hub.models.BertMaskedLM(backbone)
    spread_weights(model)
    return model, tokenizer


def copies(parts, tokens_per_step, **settings):
    model, tokenizer = parts
    augmentation = Augmentation(
        num_copies=3, probability=0.5, num_candidates=4, **settings
    )
    augmenter = Augmenter(
        augmentation,
        MaskedWords(model, tokenizer, 4, tokens_per_step=tokens_per_step),
        PieceNeighbors(model, tokenizer, 4),
        tokenizer,
        stop_words={"the", "is"},
        seed=7,
    )
    return augmenter(TEXTS)


@pytest.mark.parametrize("tokens_per_step", [1, 64, 2048])
def test_copies_are_what_they_were(parts, tokens_per_step):
    assert copies(parts, tokens_per_step) == AT_ONCE


@pytest.mark.parametrize("tokens_per_step", [1, 2048])
def test_copies_in_turn_are_what_they_were(parts, tokens_per_step):
    assert copies(parts, tokens_per_step, sequential=True) == SEQUENTIAL
