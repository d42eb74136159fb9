"""The student that is no transformer: one bidirectional LSTM."""

import keras
from keras import ops

from kdkit.models.sizes import BilstmConfig

EMBEDDING_LAYER = "token_embedding"
LSTM_LAYER = "bilstm"


def build_bilstm(config: BilstmConfig, num_classes: int, dtype=None):
    """Builds a classifier with one bidirectional LSTM and random weights.

    The last states of both directions go through a feed-forward layer with
    ReLU to the logits. Of a pair each sentence, known by its segment, is read
    by itself with the same LSTM; the layer gets both vectors u and v, their
    product and their absolute difference. Padding is not read.

    Args:
        config: `BilstmConfig`.
        num_classes: int. Width of the logits.
        dtype: Keras dtype policy or `None`.

    Returns:
        A functional `keras.Model` with a dict of the inputs `token_ids`,
        `padding_mask` and, for pairs, `segment_ids`, and logits of shape
        `(batch_size, num_classes)`.

    References:
     - [Tang et al., 2019](https://arxiv.org/abs/1903.12136), section 3.1
    """
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


def bilstm_of(model):
    """Returns the bidirectional LSTM of a model, `None` where it has none."""
    for layer in getattr(model, "layers", ()):
        if isinstance(layer, keras.layers.Bidirectional):
            return layer
    return None


def set_word_vectors(model, vectors, found) -> None:
    """Starts the embeddings of a BiLSTM from word vectors.

    Pieces without a vector start as random vectors of the same spread.

    Args:
        model: a model as `build_bilstm` returns it.
        vectors: float array of shape `(vocabulary_size, embedding_dim)`.
        found: bool array of shape `(vocabulary_size,)`. The rows that hold a
            vector; the others are ignored.
    """
    spread = float(vectors[found].std()) if found.any() else 0.05
    random = keras.random.normal(vectors.shape, stddev=spread)
    model.get_layer(EMBEDDING_LAYER).set_weights(
        [ops.convert_to_numpy(ops.where(found[:, None], vectors, random))]
    )


def _sentences(inputs):
    """Token ids of each sentence and a mask of those that are its own.

    The second sentence is moved to the left, since cuDNN reads rows with
    padding on the right alone.
    """
    token_ids = inputs["token_ids"]
    real = inputs["padding_mask"]
    if "segment_ids" not in inputs:
        return [(token_ids, ops.cast(real, "bool"))]
    of_second = real * inputs["segment_ids"]
    of_first = real - of_second
    start = ops.sum(of_first, axis=1, keepdims=True)
    index = ops.cumsum(ops.ones_like(token_ids), axis=1) - 1
    last = ops.max(index, axis=1, keepdims=True)
    moved = ops.take_along_axis(
        token_ids, ops.minimum(index + start, last), axis=1
    )
    num_second = ops.sum(of_second, axis=1, keepdims=True)
    return [
        (token_ids, ops.cast(of_first, "bool")),
        (moved, ops.less(index, num_second)),
    ]
