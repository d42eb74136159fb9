"""The BiLSTM student: one bidirectional LSTM instead of a transformer."""

import keras
from keras import ops

from kdkit.models.sizes import BilstmConfig

EMBEDDING_LAYER = "token_embedding"
LSTM_LAYER = "bilstm"


def build_bilstm(config: BilstmConfig, num_classes: int, dtype=None):
    """Builds a classifier with one bidirectional LSTM and random weights."""
    names = ["token_ids", "padding_mask"]
    if config.num_texts == 2:
        names.append("segment_ids")
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name) for name in names
    }
    embedding = keras.layers.Embedding(
        config.vocabulary_size,
        config.embedding_dim,
        dtype=dtype,
        name=EMBEDDING_LAYER,
    )
    dropout = keras.layers.Dropout(config.dropout, dtype=dtype)
    lstm = keras.layers.Bidirectional(
        keras.layers.LSTM(config.units, dtype=dtype),
        dtype=dtype,
        name=LSTM_LAYER,
    )
    vectors = [
        lstm(dropout(embedding(token_ids)), mask=mask)
        for token_ids, mask in _sentences(inputs)
    ]
    if len(vectors) == 2:
        first, second = vectors
        vectors += [first * second, ops.abs(first - second)]
    state = ops.concatenate(vectors, axis=-1)
    state = keras.layers.Dense(
        config.intermediate_dim,
        activation="relu",
        dtype=dtype,
        name="feed_forward",
    )(state)
    state = keras.layers.Dropout(config.dropout, dtype=dtype)(state)
    logits = keras.layers.Dense(num_classes, dtype=dtype, name="logits")(state)
    model = keras.Model(inputs, logits, name=LSTM_LAYER)
    model.dtype_policy = dtype
    return model


def set_word_vectors(model, vectors, found) -> None:
    """Initializes the embeddings of a BiLSTM with word vectors.

    Pieces without a vector get random vectors with the same standard
    deviation.

    Args:
        model: `keras.Model` from `build_bilstm`.
        vectors: float array of shape `(vocabulary_size, embedding_dim)`.
        found: bool array of shape `(vocabulary_size,)`. The rows that contain a
            vector; the other rows are ignored.
    """
    spread = float(vectors[found].std()) if found.any() else 0.05
    random = keras.random.normal(vectors.shape, stddev=spread)
    model.get_layer(EMBEDDING_LAYER).set_weights(
        [ops.convert_to_numpy(ops.where(found[:, None], vectors, random))]
    )


def _sentences(inputs):
    """Returns each sentence's token ids, and a mask of its own tokens."""
    token_ids = inputs["token_ids"]
    real = inputs["padding_mask"]
    if "segment_ids" not in inputs:
        return [(token_ids, ops.cast(real, "bool"))]
    second_mask = real * inputs["segment_ids"]
    first_mask = real - second_mask
    start = ops.sum(first_mask, axis=1, keepdims=True)
    index = ops.cumsum(ops.ones_like(token_ids), axis=1) - 1
    last = ops.max(index, axis=1, keepdims=True)
    moved = ops.take_along_axis(
        token_ids, ops.minimum(index + start, last), axis=1
    )
    num_second = ops.sum(second_mask, axis=1, keepdims=True)
    return [
        (token_ids, ops.cast(first_mask, "bool")),
        (moved, ops.less(index, num_second)),
    ]
