"""Fixtures of the data tests: a tiny tokeniser."""

import keras_hub
import pytest

from kdkit.data import sentiment_vocabulary


@pytest.fixture(scope="session")
def tokenizer():
    return keras_hub.models.BertTokenizer(
        vocabulary=sentiment_vocabulary(), lowercase=True
    )
