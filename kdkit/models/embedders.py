"""Embedders map the token ids of a text to one vector; rankers compare vectors.

The vector is the text's sentence embedding: the encoder's states are pooled to
one vector, dense layers may follow, and the vector may be divided by its
length. keras-hub has such models for BERT and XLM-RoBERTa. For other families,
and with dense layers, the pooling is a functional model of standard layers on
the encoder, as the heads in `kdkit.models.heads` are.

A ranker's logits are the scores of a query's candidates. A bi-encoder's score
is the product of two vectors of one embedder: the query's, and the candidate's.
A cross-encoder reads both texts at once, and its score is a classifier's logit.
"""

import dataclasses

import keras
import keras_hub
import numpy as np
from keras import ops

from kdkit.errors import UsageError, unknown
from kdkit.models.families import family_of
from kdkit.models.heads import EXCLUDED, backbone_of, join, named_layer
from kdkit.models.sizes import POOLINGS
from kdkit.taps.names import SENTENCE_EMBEDDING

RANKING = "ranking"
SCALE = 20.0  # of cosines
MASK, TOKENS, STATES = "padding_mask", "token_ids", "sequence_output"


@dataclasses.dataclass(frozen=True)
class DenseSettings:
    """A dense layer between the pooling and the normalization.

    Args:
        units: int. The width of its output.
        use_bias: bool. Defaults to `True`.
        activation: string. `"linear"` or `"tanh"`. Defaults to `"linear"`.
    """

    units: int
    use_bias: bool = True
    activation: str = "linear"


@dataclasses.dataclass(frozen=True)
class Pooling:
    """How an embedder computes its vector from the encoder's last states.

    Args:
        mode: string. `"mean"` of the states of all tokens, `"cls"` for the
            first token's state, or `"max"` over all tokens. Padding does not
            count. Defaults to `"mean"`.
        normalize: bool. Whether the vector is divided by its length (L2).
            Defaults to `True`.
        dense: tuple of `DenseSettings`. Dense layers between the pooling and
            the normalization. Defaults to none.

    Raises:
        UsageError: (a `ValueError`) if the mode is unknown.

    Example:

    >>> kdkit.models.Pooling("cls", normalize=False)
    Pooling(mode='cls', normalize=False, dense=())
    """

    mode: str = "mean"
    normalize: bool = True
    dense: tuple[DenseSettings, ...] = ()

    def __post_init__(self):
        if self.mode not in POOLINGS:
            raise unknown("pooling", self.mode, POOLINGS)
        object.__setattr__(self, "dense", tuple(self.dense))


def make_embedder(backbone, pooling: Pooling | None = None):
    """Adds a pooling to an encoder: the result maps texts to vectors.

    The encoder's own layers are used, not copies. Its pooler, if it has one,
    is frozen, because the vector does not depend on it.

    Args:
        backbone: an encoder from one of `kdkit.models.families.FAMILIES`.
        pooling: `kdkit.models.Pooling`. Defaults to `Pooling()`: the mean,
            divided by its length.

    Returns:
        A `keras_hub.models.BertTextEmbedder` or `XLMRobertaTextEmbedder`
        without preprocessor, or for other families and for a pooling with
        dense layers a functional `keras.Model`. Dense layers have random
        weights. The input is the encoder's, the output a tensor of shape
        `(batch_size, dimensions)`.

    Example:

    ```python
    backbone, tokenizer = kdkit.models.load_encoder("bert_tiny_en_uncased")
    embedder = kdkit.models.make_embedder(backbone, kdkit.models.Pooling("cls"))
    ```
    """
    pooling = Pooling() if pooling is None else pooling
    family = family_of(backbone)
    if family.is_decoder:
        raise UsageError(
            f"A {type(backbone).__name__} reads from left to right: its first "
            "states know nothing of the text. Use an encoder."
        )
    if family.embedder is None or pooling.dense:
        return join(backbone, pooling_layers(backbone.hidden_dim, pooling))
    model = family.embedder(
        backbone, pooling_mode=pooling.mode, normalize=pooling.normalize
    )
    pooler = getattr(backbone, "pooled_dense", None)
    if pooler is not None:
        pooler.trainable = False  # it gets no gradient
    model.dtype_policy = backbone.dtype_policy
    return model


def pooling_layers(width: int, pooling: Pooling):
    """Returns a functional model from states of any kind to one vector."""
    states = keras.Input((None, width), name=STATES)
    inputs = {STATES: states}
    is_token = None
    if pooling.mode != "cls":
        inputs[MASK] = keras.Input((None,), dtype="int32", name=MASK)
        is_token = ops.not_equal(inputs[MASK], 0)
    vector = _pooled(states, is_token, pooling.mode)
    for number, settings in enumerate(pooling.dense, start=1):
        vector = keras.layers.Dense(
            **dataclasses.asdict(settings), name=f"dense_{number}"
        )(vector)
    if pooling.normalize:
        vector = keras.layers.UnitNormalization(name="normalize")(vector)
    return keras.Model(inputs, vector, name=SENTENCE_EMBEDDING)


def _pooled(states, is_token, mode):
    """Returns the pooled states; the name of a layer contains the mode."""
    name = f"{mode}_pooling"
    if mode == "cls":
        return keras.layers.Identity(name=name)(states[:, 0])
    if mode == "max":
        states = ops.where(is_token[..., None], states, EXCLUDED)
        return keras.layers.GlobalMaxPooling1D(name=name)(states)
    # A layer multiplies, so that the shares get the precision of the states.
    tokens = ops.cast(is_token, "float32")
    count = ops.maximum(ops.sum(tokens, axis=1, keepdims=True), 1.0)
    shares = ops.expand_dims(tokens / count, -1)
    return ops.sum(keras.layers.Multiply(name=name)([states, shares]), axis=1)


def is_embedder(model) -> bool:
    """Whether a model's output is a sentence embedding.

    Args:
        model: any object.
    """
    return (
        isinstance(model, keras_hub.models.TextEmbedder)
        or pooling_model(model) is not None
    )


def pooling_model(model):
    """Returns the part of an embedder after its encoder, as its own model."""
    return named_layer(model, SENTENCE_EMBEDDING)


def standalone_pooling(embedder):
    """Returns `pooling_model`, or a new one for keras-hub's embedders."""
    found = pooling_model(embedder)
    if found is not None:
        return found
    backbone = backbone_of(embedder)
    return pooling_layers(backbone.hidden_dim, pooling_of(embedder))


def pooling_of(embedder) -> Pooling:
    """Returns the `Pooling` of an embedder.

    Args:
        embedder: `keras.Model`, the result of `make_embedder` or
            `load_embedder`.
    """
    model = pooling_model(embedder)
    if model is None:
        return Pooling(embedder.pooling_mode, embedder.normalize)
    names = {layer.name for layer in model.layers}
    (mode,) = (one for one in POOLINGS if f"{one}_pooling" in names)
    dense = [
        DenseSettings(layer.units, layer.use_bias, layer.activation.__name__)
        for layer in dense_layers(embedder)
    ]
    return Pooling(mode, "normalize" in names, dense)


def dense_layers(embedder) -> list:
    """Returns the dense layers of an embedder's pooling, in their order.

    Args:
        embedder: `keras.Model`. The result for one without dense layers is
            empty.
    """
    return [
        layer
        for layer in getattr(pooling_model(embedder), "layers", ())
        if isinstance(layer, keras.layers.Dense)
    ]


def with_encoder(embedder, backbone, *dense):
    """Returns an embedder on another encoder with the same pooling.

    Args:
        embedder: `keras.Model`. Its dense layers are copied.
        backbone: an encoder as wide as the embedder's.
        *dense: `DenseSettings` of more layers, with random weights.
    """
    pooling = pooling_of(embedder)
    pooling = dataclasses.replace(pooling, dense=(*pooling.dense, *dense))
    made = make_embedder(backbone, pooling)
    pairs = zip(dense_layers(made), dense_layers(embedder), strict=False)
    for ours, theirs in pairs:
        ours.set_weights(theirs.get_weights())
    return made


def reduce_width(embedder, dimensions: int, vectors):
    r"""Returns an embedder whose vectors are the principal components.

    A dense layer without bias maps each vector $h$ to the components with the
    largest variance, before the vectors get length 1:

    $$h \mapsto W^\top h, \qquad
        \frac{1}{n} \sum_i (h_i - \bar h)(h_i - \bar h)^\top
        = W' \Lambda W'^\top$$

    $W$ consists of the first columns of $W'$, in the order of the eigenvalues.
    As a teacher, the result is compared with narrower students by dimension. If
    `dimensions` is the embedder's own width, the vectors are rotated: all
    cosines stay the same, and the first dimensions contain most of the
    variance, as a teacher of `kdkit.losses.Matryoshka` needs it.

    Args:
        embedder: `keras.Model`. Its layers are used, not copied.
        dimensions: int. The new width, at most the embedder's.
        vectors: array of shape `(num_texts, width)`. The embedder's vectors of
            texts like those that it will read, more texts than `dimensions`.

    Returns:
        A `keras.Model` with the embedder's inputs, whose output has the shape
        `(batch_size, dimensions)`.

    Raises:
        UsageError: (a `ValueError`) if there are too few vectors, or one is not
            finite.

    Example:

    ```python
    teacher = kdkit.models.load_embedder("all-MiniLM-L6-v2/").model
    vectors = teacher.predict(batches)
    narrow = kdkit.models.reduce_width(teacher, 128, vectors)
    ```
    """
    components = principal_components(vectors, dimensions)
    settings = DenseSettings(dimensions, use_bias=False)
    made = with_encoder(embedder, backbone_of(embedder), settings)
    dense_layers(made)[-1].set_weights([components])
    return made


def principal_components(vectors, dimensions: int):
    """Returns the first components as columns; each one's largest value is > 0.

    Args:
        vectors: float array of shape `(num_vectors, width)`.
        dimensions: int. The number of components, at most `width`.

    Returns:
        `float32` array of shape `(width, dimensions)`, the components with the
        largest variance first.

    Raises:
        UsageError: (a `ValueError`) if there are too few vectors, or one is not
            finite.
    """
    vectors = np.asarray(vectors, "float64")
    if len(vectors) <= dimensions or not np.isfinite(vectors).all():
        raise UsageError(
            f"{dimensions} principal components need more than {dimensions} "
            f"vectors, all finite. Received: {len(vectors)} vectors."
        )
    width = vectors.shape[1]
    covariance = np.cov(vectors, rowvar=False).reshape(width, width)
    _, components = np.linalg.eigh(covariance)
    components = components[:, ::-1][:, :dimensions]
    largest = np.argmax(np.abs(components), axis=0)
    signs = np.sign(components[largest, np.arange(dimensions)])
    return (components * signs).astype("float32")


def make_ranker(embedder, num_candidates: int, scale: float | None = None):
    r"""Returns a model that scores a query's candidates with an embedder.

    $$z_c = s \, \langle h_q, h_c \rangle, \qquad c = 0, \dots, C - 1$$

    Query and candidates are read by the same encoder, so the gradient of both
    reaches its weights.

    Args:
        embedder: `keras.Model`, see `kdkit.models.make_embedder`. Its layers
            are used, not copied.
        num_candidates: int. The number of candidates $C$ of a query.
        scale: float. The factor $s$. Defaults to `None`: 20 if the vectors
            have length 1, and 1 for other vectors.

    Returns:
        A functional `keras.Model` with the embedder's inputs. Its rows are
        groups of `1 + num_candidates`: a query, then its candidates. The output
        has the shape `(batch_size / (1 + num_candidates), num_candidates)`.
    """
    if scale is None:
        scale = SCALE if pooling_of(embedder).normalize else 1.0
    backbone = backbone_of(embedder)
    is_static = backbone is embedder  # without an encoder
    part = embedder if is_static else standalone_pooling(embedder)
    vectors = ops.cast(part(part.input), "float32")
    width = vectors.shape[-1]
    rows = ops.reshape(vectors, (-1, 1 + num_candidates, width))
    products = ops.sum(rows[:, :1] * rows[:, 1:], axis=-1)
    rescale = keras.layers.Rescaling(scale, dtype="float32", name="logits")
    head = keras.Model(part.input, rescale(products), name=RANKING)
    return head if is_static else join(backbone, head)


def reranker_scores(logits):
    """Returns the scores of pairs of texts from a cross-encoder's logits.

    Args:
        logits: array of shape `(num_pairs, 1)`, or `(num_pairs, 2)` for two
            classes, of which the second is "relevant".

    Returns:
        Array of shape `(num_pairs,)`: the logit, or the second logit minus the
        first, which is the log-odds of the second class.
    """
    if logits.shape[-1] == 1:
        return logits[..., 0]
    return logits[..., 1] - logits[..., 0]
