"""Tiny models and rows for the doctor's tests."""

import keras_hub
import numpy as np
from kinds import VOCABULARY
from kinds import WORDS

from kdkit.tasks import get_task

ROWS = {"train": 40, "dev": 120, "test": 20}
LENGTH = 12
HEAD = get_task("sst2").head


def tokenizer(pieces=VOCABULARY):
    return keras_hub.tokenizers.BertTokenizer(list(pieces), lowercase=False)


def encoder(num_layers, width=8, num_heads=2):
    return keras_hub.models.BertBackbone(
        vocabulary_size=len(VOCABULARY),
        num_layers=num_layers,
        num_heads=num_heads,
        hidden_dim=width,
        intermediate_dim=2 * width,
        max_sequence_length=16,
        dropout=0.0,
    )


def texts(split, count):
    """Different texts in every split."""
    first = WORDS[list(ROWS).index(split)]
    generator = np.random.default_rng(0)
    found = {}
    while len(found) < count:
        found[" ".join([first, *generator.choice(WORDS, 5)])] = None
    return list(found)


def write_rows(folder, split, rows, labels):
    folder.mkdir(exist_ok=True, parents=True)
    if split == "test":
        lines = [f"{number}\t{text}" for number, text in enumerate(rows)]
        header = "index\tsentence"
    else:
        lines = [
            f"{text}\t{label}" for text, label in zip(rows, labels, strict=True)
        ]
        header = "sentence\tlabel"
    (folder / f"{split}.tsv").write_text("\n".join([header, *lines]) + "\n")
