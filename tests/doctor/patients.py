"""Tiny models for the doctor's tests."""

import keras_hub
from kit.tasks import VOCABULARY

from kdkit.tasks import get_task

ROWS = {"train": 40, "dev": 120, "test": 20}
LENGTH = 12
TASK = get_task("sst2")


def tokenizer(pieces=VOCABULARY):
    return keras_hub.tokenizers.BertTokenizer(list(pieces), lowercase=False)


def encoder(num_layers, width=8):
    return keras_hub.models.BertBackbone(
        vocabulary_size=len(VOCABULARY),
        num_layers=num_layers,
        num_heads=2,
        hidden_dim=width,
        intermediate_dim=2 * width,
        max_sequence_length=16,
        dropout=0.0,
    )
