"""Tiny models and rows for the doctor's tests."""

import shutil

import keras_hub
import numpy as np
from kit.tasks import VOCABULARY, WORDS

from kdkit.tasks import get_task

ROWS = {"train": 40, "dev": 120, "test": 20}
LENGTH = 12
NUM_WORDS = len(VOCABULARY)
HEAD = get_task("sst2").head


def tokenizer(pieces=VOCABULARY):
    return keras_hub.tokenizers.BertTokenizer(list(pieces), lowercase=False)


def encoder(num_layers, width=8, num_heads=2, num_words=NUM_WORDS):
    return keras_hub.models.BertBackbone(
        vocabulary_size=num_words,
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


def checks(findings, outcome):
    return {one.check for one in findings if one.outcome == outcome}


def found(findings, check):
    (finding,) = (one for one in findings if one.check == check)
    return finding


def rows_of(root, split):
    lines = (root / "SST-2" / f"{split}.tsv").read_text().splitlines()[1:]
    cells = [line.split("\t") for line in lines]
    return [cell[0] for cell in cells], [int(cell[1]) for cell in cells]


def copied(made, tmp_path):
    """A copy of the data that a test may change."""
    shutil.copytree(made / "SST-2", tmp_path / "SST-2")
    return tmp_path
