"""Rankers: models whose logits are the scores of a query's candidates.

A bi-encoder's score is the product of two vectors of one embedder: the
query's, and the candidate's. A cross-encoder reads both texts at once, and its
score is a classifier's logit.
"""

import dataclasses

import keras
from keras import ops

from kdkit.errors import UsageError
from kdkit.models.embedders import pooling_of, standalone_pooling
from kdkit.models.heads import backbone_of, join
from kdkit.models.loading import LoadedModel, load_classifier
from kdkit.models.places import num_classes_at

RANKING = "ranking"
SCALE = 20.0  # of cosines


def default_scale(embedder) -> float:
    """Returns the factor of an embedder's products in `make_ranker`."""
    return SCALE if pooling_of(embedder).normalize else 1.0


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
        scale = default_scale(embedder)
    backbone = backbone_of(embedder)
    if backbone is embedder:  # a static one, without an encoder
        logits = _scores(embedder(embedder.input), num_candidates, scale)
        return keras.Model(embedder.input, logits, name=RANKING)
    pooling = standalone_pooling(embedder)
    logits = _scores(pooling(pooling.input), num_candidates, scale)
    head = keras.Model(pooling.input, logits, name=RANKING)
    return join(backbone, head)


def _scores(vectors, num_candidates, scale):
    vectors = ops.cast(vectors, "float32")
    width = vectors.shape[-1]
    rows = ops.reshape(vectors, (-1, 1 + num_candidates, width))
    products = ops.sum(rows[:, :1] * rows[:, 1:], axis=-1)
    rescale = keras.layers.Rescaling(scale, dtype="float32", name="logits")
    return rescale(products)


def load_reranker(source) -> LoadedModel:
    """Loads a cross-encoder: a classifier of pairs of texts with one score.

    Args:
        source: string or path, as in `kdkit.models.load_classifier`. The
            classifier has one logit, as for regression and in
            sentence-transformers' cross-encoders, or two classes.

    Raises:
        UsageError: (a `ValueError`) if its head was not trained, or has more
            than two classes.
    """
    num_classes = num_classes_at(source) or 1
    loaded = load_classifier(source, num_classes)
    if not loaded.has_trained_head or num_classes > 2:
        raise UsageError(
            f"{source} is not a cross-encoder. Expected a trained head of one "
            f"score or two classes. Received: {num_classes} classes, "
            f"has_trained_head={loaded.has_trained_head}."
        )
    return dataclasses.replace(loaded, num_other_classes=None)


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
