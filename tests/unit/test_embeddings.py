"""From texts to vectors: order, repetition, files and mistakes."""

import keras
import numpy as np
import pytest
from kit.encoders import MORE_SENTENCES, SENTENCES, encoder, tokenizer

from kdkit import data, tasks

TEXTS = [*SENTENCES, *MORE_SENTENCES, SENTENCES[0]]


@pytest.fixture(scope="module")
def embedder():
    backbone = encoder("bert", num_classes=None)
    return keras.Model(backbone.input, backbone.output["pooled_output"])


def test_each_text_has_the_vector_of_the_model(embedder):
    read = tokenizer("bert")
    rows = data.encode(data.Examples((TEXTS,)), read, 8)
    expected = [
        embedder(rows.inputs(np.array([row]), 8))[0]
        for row in range(len(TEXTS))
    ]
    vectors = tasks.embed_texts(embedder, iter(TEXTS), read, 8)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert vectors.dtype == np.float32


def test_a_text_is_embedded_once_by_any_callable():
    counts = []

    def predict(batch):
        counts.append(len(batch["token_ids"]))
        return batch["token_ids"][:, :2].astype("float64")

    vectors = tasks.embed_texts(predict, TEXTS * 3, tokenizer("bert"))
    assert sum(counts) == len({*TEXTS})
    assert vectors.shape == (3 * len(TEXTS), 2)
