"""The BiLSTM student: inputs, size, files, taps, word vectors."""

import zipfile

import numpy as np
from kit.helpers import batch

from kdkit import models

SIZES = {
    "units": 3,
    "embedding_dim": 5,
    "intermediate_dim": 7,
    "vocabulary_size": 20,
    "dropout": 0.0,
}


def bilstm(num_texts=1, num_classes=3):
    config = models.BilstmConfig(**SIZES, num_texts=num_texts)
    return models.student(config, num_classes=num_classes)


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


def both_states(inputs, weights):
    """Those of both directions."""
    return np.concatenate(
        [
            last_state(inputs, *weights[:3]),
            last_state(inputs[::-1], *weights[3:]),
        ]
    )


def expected_logits(model, vectors):
    """The feed-forward layer and the head, on a sentence's or a pair's."""
    kernel, bias = model.get_layer("feed_forward").get_weights()
    hidden = np.maximum(np.concatenate(vectors) @ kernel + bias, 0)
    kernel, bias = model.get_layer("logits").get_weights()
    return hidden @ kernel + bias


def sentences(model, x, row, segment=None):
    """The embeddings of a row's tokens, or of one of its segments."""
    real = x["padding_mask"][row] == 1
    if segment is not None:
        real &= x["segment_ids"][row] == segment
    (table,) = model.get_layer("token_embedding").get_weights()
    return table[x["token_ids"][row][real]]


def test_logits_of_a_sentence_come_from_the_last_states_of_both_directions():
    model, x = bilstm(), batch()
    weights = model.get_layer("bilstm").get_weights()
    logits = model({name: x[name] for name in model.input})
    for row, received in enumerate(np.asarray(logits)):
        state = both_states(sentences(model, x, row), weights)
        np.testing.assert_allclose(
            received, expected_logits(model, [state]), atol=1e-5
        )


def test_sentences_of_a_pair_are_read_apart_and_compared():
    model, x = bilstm(num_texts=2), batch()
    x["segment_ids"][:, 1:] = 1
    weights = model.get_layer("bilstm").get_weights()
    logits = model(x)
    for row, received in enumerate(np.asarray(logits)):
        u, v = (
            both_states(sentences(model, x, row, segment), weights)
            for segment in (0, 1)
        )
        np.testing.assert_allclose(
            received,
            expected_logits(model, [u, v, u * v, abs(u - v)]),
            atol=1e-5,
        )


def test_file_names_no_class_of_kdkit(tmp_path):
    bilstm(num_texts=2).save(tmp_path / "student.keras")
    with zipfile.ZipFile(tmp_path / "student.keras") as file:
        assert b"kdkit" not in file.read("config.json")


def test_embeddings_start_from_word_vectors_where_there_are_some():
    model = bilstm()
    vectors = np.random.default_rng(0).normal(2.0, 0.1, size=(20, 5))
    found = np.arange(20) % 2 == 0
    vectors[~found] = 0
    models.set_word_vectors(model, vectors.astype("float32"), found)
    (table,) = model.get_layer("token_embedding").get_weights()
    np.testing.assert_allclose(table[found], vectors[found], atol=1e-6)
    spread = vectors[found].std()
    assert 0.5 * spread < table[~found].std() < 2 * spread
