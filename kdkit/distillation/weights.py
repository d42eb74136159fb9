"""Combines the data's sample weights with the masks of each tap."""

from kdkit import taps
from kdkit.late import ops
from kdkit.losses.base import append_axes
from kdkit.taps.names import (
    ATTENTION_TAPS,
    CLS_INDEX,
    POSITION_TAPS,
    is_layer_tap,
    name_tap,
    split_tap,
)

LABEL_WEIGHT = "label_weight"  # a feature next to the models' inputs


def element_weights(tap, tensor, x, sample_weight):
    """Returns the weights of a tap's elements: masks times sample weights.

    Args:
        tap: string, the name of the student's tap.
        tensor: the student's tensor of the tap.
        x: the inputs of the models.
        sample_weight: the weights of the data, or `None`.

    Returns:
        `None`, or a tensor as a `kdkit.losses.DistillationLoss` takes it.
    """
    features = x if isinstance(x, dict) else {}
    padding, keys = _masks(tap, features)
    if padding is None and tensor.ndim > 2:
        # Read late: its module imports Keras.
        padding = taps.keras_mask(tensor)
    weights = _weights_of_data(tap, tensor, features, sample_weight)
    if _takes_mask(tap, tensor, padding, weights):
        mask = ops.cast(padding, "float32")
        if weights is not None:
            mask *= position_weights(mask, weights)
        weights = mask
    if weighs_pairs(tap):
        return _pair_weights(tap, tensor, weights, keys)
    return weights


def _masks(tap, features):
    """Returns the padding masks of a tap's queries and keys.

    Both are the same mask in self-attention. For states it is the mask of
    their positions.
    """
    if tap != "logits":
        part, _ = split_tap(tap)
        halves = ("decoder", "encoder") if part == "cross" else (part, part)
        names = [name_tap(half, "padding_mask") for half in halves]
        return map(features.get, names)
    if "mask_positions" in features:
        return None, None
    mask = features.get("padding_mask")
    return features.get("decoder_padding_mask", mask), None


def _weights_of_data(tap, tensor, features, sample_weight):
    """Returns the data's weights that count for a tap, in its positions."""
    if sample_weight is None:
        return None
    weights = ops.cast(sample_weight, "float32")
    if weights.ndim == 2:
        part, _ = split_tap(tap)
        if "mask_positions" in features and tap != "logits":
            return None
        if weights.shape[1] == 1:
            weights = weights[:, 0]
        elif part == "encoder":
            return None
        elif tensor.ndim == 2:
            weights = weights[:, CLS_INDEX]
    if weights.ndim == 1:
        return _spread_over_options(weights, ops.shape(tensor)[0])
    return weights


def _takes_mask(tap, tensor, padding, weights):
    """Whether a padding mask applies to the positions of a tensor."""
    _, kind = split_tap(tap)
    if padding is None:
        return False
    if is_layer_tap(tap):
        has_positions = tensor.ndim > 2
    elif kind == "logits":
        # Weights per position are the mask of logits.
        per_position = weights is not None and weights.ndim == 2
        has_positions = tensor.ndim == 3 and not per_position
    else:
        return kind in POSITION_TAPS
    lengths = {tensor.shape[1], padding.shape[1]}
    return has_positions and len(lengths - {None}) < 2


def weighs_pairs(tap) -> bool:
    """Whether a tap needs weights per pair of a query and a key."""
    part, kind = split_tap(tap)
    return kind in ATTENTION_TAPS and part in ("decoder", "cross")


def _pair_weights(tap, attention, weights, keys):
    """Returns weights for the pairs of a query and a key that it may see."""
    queries = position_weights(attention[:, 0, :, 0], weights)
    part, _ = split_tap(tap)
    if part == "cross":
        keys = position_weights(attention[:, 0, 0], keys)
    else:
        # As in an encoder, a position without weight is not a key either.
        keys = queries
    is_key = ops.cast(keys != 0, "float32")
    pairs = queries[:, None, :, None] * is_key[:, None, None, :]
    return pairs if part == "cross" else ops.tril(pairs)


def label_weights(x, sample_weight):
    """Returns the sample weights that count for the labels.

    The feature `label_weight`, of shape `(batch,)`, multiplies the data's
    sample weights. An example with 0 has no label and is used only with the
    teacher's outputs.
    """
    if not isinstance(x, dict) or LABEL_WEIGHT not in x:
        return sample_weight
    weights = x[LABEL_WEIGHT]
    if sample_weight is None:
        return weights
    sample_weight = ops.convert_to_tensor(sample_weight)
    weights = ops.cast(weights, sample_weight.dtype)
    return sample_weight * append_axes(weights, sample_weight.ndim)


def position_weights(tensor, weights):
    """Returns weights per position of a tensor from any; ones for `None`."""
    shape = ops.shape(tensor)[:2]
    if weights is None:
        return ops.ones(shape, dtype="float32")
    weights = ops.cast(weights, "float32")
    if weights.ndim == 1:
        weights = weights[:, None]
    return ops.broadcast_to(weights, shape)


def _spread_over_options(weights, num_rows):
    """Repeats the weight of each question for its options."""
    num_questions = ops.shape(weights)[0]
    questions = ops.arange(num_rows) * num_questions
    # A replica may have no examples.
    questions //= ops.maximum(num_rows, 1)
    return ops.take(weights, questions)
