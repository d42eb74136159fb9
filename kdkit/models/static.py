"""Static embedders: the vector of a text is the mean of its tokens' vectors.

There is no transformer: a table has one vector for each token, and the mean of
a text's rows is its sentence embedding. `make_static_embedder` builds the
model, `set_token_vectors` computes the table from a sentence encoder's vectors
of the single tokens.
"""

import keras
import numpy as np
from keras import ops

from kdkit.errors import UsageError
from kdkit.models.embedders import (
    MASK,
    STATES,
    TOKENS,
    Pooling,
    pooling_layers,
    pooling_model,
)
from kdkit.models.heads import named_layer
from kdkit.models.tokenizer_kinds import as_tokenizer

SEGMENTS = "segment_ids"  # read like a BERT's, and ignored
TOKEN_VECTORS = "token_vectors"  # the layer with the table
SIF = 1e-3
ROWS = 4096  # texts at a time


def make_static_embedder(
    tokenizer, dimensions: int = 240, normalize: bool = True
):
    """Returns an embedder without a transformer, with random token vectors.

    The vector of a text is the mean of its tokens' vectors. The tokens that a
    tokenizer puts around a text, such as `[CLS]` and `[SEP]`, and padding do
    not count. A text without other tokens has the vector 0.

    Args:
        tokenizer: a tokenizer. The table has a row for each token of
            its vocabulary.
        dimensions: int. The width of the vectors. Defaults to 240.
        normalize: bool. Whether the mean is divided by its length (L2).
            Defaults to `True`.

    Returns:
        A functional `keras.Model` with the inputs of a BERT (`token_ids`,
        `padding_mask` and `segment_ids`, which it ignores) and an output of
        shape `(batch_size, dimensions)`. It can be trained, saved, measured and
        exported as any embedder; it has no layers to copy.

    Example:

    ```python
    loaded = kdkit.models.load_embedder("all-MiniLM-L6-v2/", "mean")
    student = kdkit.models.make_static_embedder(loaded.tokenizer)
    ```
    """
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in (TOKENS, MASK, SEGMENTS)
    }
    counted = inputs[MASK]
    for token_id in special_token_ids(tokenizer):
        is_other = ops.not_equal(inputs[TOKENS], token_id)
        counted = counted * ops.cast(is_other, "int32")
    states = keras.layers.Embedding(
        tokenizer.vocabulary_size(), dimensions, name=TOKEN_VECTORS
    )(inputs[TOKENS])
    # A text without tokens counts all positions, and its vector is multiplied
    # by 0: LiteRT divides a vector of zeros by its length, to NaN.
    has_tokens = ops.max(counted, axis=1, keepdims=True)
    counted = ops.where(has_tokens > 0, counted, 1)
    pooling = pooling_layers(dimensions, Pooling("mean", normalize))
    vector = pooling({STATES: states, MASK: counted})
    has_tokens = ops.cast(has_tokens, "float32")
    vector = keras.layers.Multiply(name="has_tokens")([vector, has_tokens])
    return keras.Model(inputs, vector, name="static_embedder")


def special_token_ids(tokenizer) -> list[int]:
    """Returns the ids of the tokens around a text."""
    tokenizer = as_tokenizer(tokenizer)
    around = {*tokenizer.rust.encode("").ids}
    if not tokenizer.tokens:  # texts may contain added tokens
        around -= tokenizer.rust.get_added_tokens_decoder().keys()
    return sorted(around)


def is_static_embedder(model) -> bool:
    """Whether a model is the result of `make_static_embedder`.

    Args:
        model: any object.
    """
    return pooling_model(model) is not None and _table(model) is not None


def token_vectors(embedder) -> np.ndarray:
    """Returns the table of a static embedder.

    Args:
        embedder: `keras.Model`, see `make_static_embedder`.

    Returns:
        `float32` array of shape `(vocabulary_size, dimensions)`.
    """
    return ops.convert_to_numpy(_table(embedder)).astype("float32")


def set_token_vectors(
    embedder,
    vectors,
    tokenizer,
    token_ids=None,
    lengths=None,
    sif: float | None = SIF,
) -> None:
    r"""Sets a static embedder's table from vectors of single tokens.

    The vector $v_i$ of token $i$ is weighted by how rare the token is (SIF,
    smooth inverse frequency), and the component $u$ that all texts have in
    common is removed:

    $$t_i = (I - u u^\top) \, \frac{a}{a + p_i} \, v_i$$

    $p_i$ is the token's share of all tokens in the texts. $u$ is the first
    singular vector of the texts' mean vectors with the weights.

    Args:
        embedder: `keras.Model`, see `make_static_embedder`. Its table is
            replaced.
        vectors: array of shape `(vocabulary_size, dimensions)`. The vectors of
            the tokens by id, each from a text that consists of this token.
        tokenizer: the tokenizer of the embedder.
        token_ids: int array of shape `(num_tokens,)`. The tokens of texts like
            those to train on, one text after the other. Tokens that the
            tokenizer puts around texts do not count. Not needed if `sif` is
            `None`. Defaults to `None`.
        lengths: int array of shape `(num_texts,)`. The number of tokens of each
            text in `token_ids`. Defaults to `None`.
        sif: float or `None`. The number $a$. Smaller values give less weight to
            frequent tokens. `None` for the vectors as they are. Defaults to
            `1e-3`, as in the paper.

    Raises:
        UsageError: (a `ValueError`) if `lengths` do not fit, `sif` is not above
            0, or a vector is not finite.

    Reference:
     - [Arora et al., 2017](https://openreview.net/forum?id=SyK00v5xx)
    """
    if sif is not None and not 0 < sif < np.inf:
        raise UsageError(f"Expected a number above 0. Received: sif={sif!r}.")
    vectors = np.asarray(vectors, "float32")
    if not np.isfinite(vectors).all():
        raise UsageError("Some of the tokens' vectors are not finite.")
    if sif is not None:
        counts = _counts(tokenizer, token_ids, lengths, len(vectors))
        share = counts / counts.sum()
        weighted = vectors * (sif / (sif + share))[:, np.newaxis]
        common = _common_component(weighted, token_ids, lengths, counts > 0)
        vectors = weighted - np.outer(weighted @ common, common)
    _table(embedder).assign(vectors.astype("float32"))


def _counts(tokenizer, token_ids, lengths, num_tokens):
    """Counts each token in texts, without those around them."""
    if int(np.sum(lengths)) != len(token_ids):
        raise UsageError(
            f"The lengths of the texts are {np.sum(lengths)} tokens. Received: "
            f"{len(token_ids)} token_ids."
        )
    counts = np.bincount(token_ids, minlength=num_tokens)
    counts[special_token_ids(tokenizer)] = 0
    if not counts.any():
        raise UsageError("The texts have no tokens that count.")
    return counts


def _common_component(weighted, token_ids, lengths, is_counted):
    """The first singular vector of the mean vectors of texts."""
    weighted = np.where(is_counted[:, np.newaxis], weighted, 0)
    width, lengths = weighted.shape[1], np.asarray(lengths)
    squares, starts = np.zeros((width, width)), np.cumsum(lengths) - lengths
    real = np.flatnonzero(lengths)  # `reduceat` needs at least one token
    for chunk in np.split(real, range(ROWS, len(real), ROWS)):
        begins = starts[chunk]
        ids = np.asarray(token_ids[begins[0] : begins[-1] + lengths[chunk[-1]]])
        begins = begins - begins[0]
        counts = np.add.reduceat(is_counted[ids].astype("float64"), begins)
        sums = np.add.reduceat(weighted[ids], begins, axis=0)
        means = sums / np.maximum(counts, 1)[:, np.newaxis]
        squares += means.T @ means
    _, components = np.linalg.eigh(squares)
    return components[:, -1].astype("float32")


def _table(model):
    return getattr(named_layer(model, TOKEN_VECTORS), "embeddings", None)
