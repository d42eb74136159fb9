"""Fixtures of the data tests: a tiny tokeniser, the shared real data."""

import os
import pathlib

import keras_hub
import pytest

from kdkit.data import sentiment_vocabulary


@pytest.fixture(scope="session")
def tokenizer():
    return keras_hub.models.BertTokenizer(
        vocabulary=sentiment_vocabulary(), lowercase=True
    )


@pytest.fixture(scope="session")
def shared_data():
    default = pathlib.Path(__file__).parents[2].parent / "shared" / "data"
    folder = pathlib.Path(os.environ.get("KDKIT_DATA", default))
    if not (folder / "glue" / "SST-2" / "train.tsv").is_file():
        pytest.skip(f"needs the shared data; {folder} has none (KDKIT_DATA)")
    return folder
