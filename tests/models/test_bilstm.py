"""The BiLSTM student: logits against NumPy, its file, word vectors."""

import zipfile

import numpy as np
import pytest
from kit.helpers import batch

from kdkit import models

SIZES = {
    "units": 3,
    "embedding_dim": 5,
    "intermediate_dim": 7,
    "vocabulary_size": 20,
    "dropout": 0.0,
}


def bilstm(num_texts=1):
    config = models.BilstmConfig(**SIZES, num_texts=num_texts)
    return models.student(config, num_classes=3)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def last_state(inputs, kernel, recurrent, bias):
    """The last state of an LSTM with Keras' order of gates: i, f, c, o."""
    state = cell = np.zeros(recurrent.shape[0])
    for x in inputs:
        i, f, c, o = np.split(x @ kernel + state @ recurrent + bias, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(c)
        state = sigmoid(o) * np.tanh(cell)
    return state


def weights(model, layer):
    return model.get_layer(layer).get_weights()


def state_of(model, ids):
    """The last states of both directions."""
    (table,) = weights(model, "token_embedding")
    both = weights(model, "bilstm")
    forward = last_state(table[ids], *both[:3])
    return np.concatenate([forward, last_state(table[ids[::-1]], *both[3:])])


@pytest.mark.parametrize("num_texts", [1, 2])
def test_logits_are_those_of_numpy(num_texts):
    """Texts of a pair are read apart and compared."""
    model, x = bilstm(num_texts), batch()
    if num_texts == 2:
        x["segment_ids"][:, 1:] = 1
    logits = np.asarray(model({name: x[name] for name in model.input}))
    for row, received in enumerate(logits):
        ids = x["token_ids"][row][x["padding_mask"][row] == 1]
        if num_texts == 1:
            vector = state_of(model, ids)
        else:
            u, v = state_of(model, ids[:1]), state_of(model, ids[1:])
            vector = np.concatenate([u, v, u * v, abs(u - v)])
        for layer in ("feed_forward", "logits"):
            kernel, bias = weights(model, layer)
            vector = vector @ kernel + bias
            if layer == "feed_forward":
                vector = np.maximum(vector, 0)
        np.testing.assert_allclose(received, vector, atol=1e-5)


def test_the_file_names_no_class_of_kdkit(tmp_path):
    bilstm(num_texts=2).save(tmp_path / "student.keras")
    with zipfile.ZipFile(tmp_path / "student.keras") as file:
        assert b"kdkit" not in file.read("config.json")


def test_embeddings_start_from_word_vectors_where_there_are_some():
    model = bilstm()
    vectors = np.random.default_rng(0).normal(2.0, 0.1, size=(20, 5))
    found = np.arange(20) % 2 == 0
    vectors[~found] = 0
    models.set_word_vectors(model, vectors.astype("float32"), found)
    (table,) = weights(model, "token_embedding")
    np.testing.assert_allclose(table[found], vectors[found], atol=1e-6)
    spread = vectors[found].std()
    assert 0.5 * spread < table[~found].std() < 2 * spread
