"""Combines the data's sample weights with the masks of each tap."""

from kdkit import taps
from kdkit.late import ops
from kdkit.taps import (
    ATTENTION_TAPS,
    CLS_INDEX,
    POSITION_TAPS,
    causal_mask,
    is_layer_tap,
    key_mask,
    padding_masks,
    split_tap,
)

LABEL_WEIGHT = "label_weight"  # a feature next to the models' inputs


def objective_weights(tap, x, sample_weight):
    """Returns the sample weights that count for a tap."""
    if sample_weight is None or len(sample_weight.shape) == 1:
        return sample_weight
    per_prediction = isinstance(x, dict) and "mask_positions" in x
    if per_prediction and tap != "logits":
        return None
    part, _ = split_tap(tap)
    per_token = sample_weight.shape[1] != 1
    return None if per_token and part == "encoder" else sample_weight


def objective_masks(tap, x):
    """Returns the padding masks of a tap's queries and keys."""
    if tap != "logits":
        part, _ = split_tap(tap)
        return padding_masks(x, part)
    if not isinstance(x, dict) or "mask_positions" in x:
        return None, None
    return x.get("decoder_padding_mask", x.get("padding_mask")), None


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
    ones = (1,) * (len(sample_weight.shape) - 1)
    return sample_weight * ops.reshape(weights, (-1, *ones))


def position_weights(tensor, sample_weight):
    """Returns weights per position: the data's sample weights, or ones."""
    return _spread_over_positions(sample_weight, *ops.shape(tensor)[:2])


def combine_weights(tap, tensor, padding_mask, sample_weight):
    """Multiplies a tap's padding mask with the data's sample weights."""
    if sample_weight is not None:
        sample_weight = ops.cast(sample_weight, "float32")
        if len(sample_weight.shape) == 2 and sample_weight.shape[1] == 1:
            sample_weight = sample_weight[:, 0]
        if len(sample_weight.shape) == 2 and len(tensor.shape) == 2:
            sample_weight = sample_weight[:, CLS_INDEX]
        if len(sample_weight.shape) == 1:
            sample_weight = _spread_over_options(
                sample_weight, ops.shape(tensor)[0]
            )
    if padding_mask is None and len(tensor.shape) > 2:
        # Read late: its module imports Keras.
        padding_mask = taps.keras_mask(tensor)
    if not _takes_mask(tap, tensor, padding_mask, sample_weight):
        return sample_weight
    mask = ops.cast(padding_mask, "float32")
    if sample_weight is None:
        return mask
    if len(sample_weight.shape) == 1:
        sample_weight = sample_weight[:, None]
    return mask * sample_weight


def _takes_mask(tap, tensor, padding_mask, sample_weight):
    """Whether the padding mask applies to the positions of a tensor."""
    _, kind = split_tap(tap)
    of_layer = is_layer_tap(tap)
    if padding_mask is None or not (kind == "logits" or of_layer):
        return padding_mask is not None and kind in POSITION_TAPS
    per_position = sample_weight is not None and len(sample_weight.shape) == 2
    rank = len(tensor.shape)
    if rank < 3 or (not of_layer and (per_position or rank > 3)):
        return False
    lengths = {tensor.shape[1], padding_mask.shape[1]} - {None}
    return len(lengths) < 2


def weighs_pairs(tap) -> bool:
    """Whether a tap needs weights per pair of a query and a key."""
    part, kind = split_tap(tap)
    return kind in ATTENTION_TAPS and part in ("decoder", "cross")


def pair_weights(tap, attention, weights, key_padding_mask):
    """Returns weights for the pairs of a query and a key that it may see."""
    if not weighs_pairs(tap):
        return weights
    batch_size, _, query_length, key_length = ops.shape(attention)
    queries = _spread_over_positions(weights, batch_size, query_length)
    if split_tap(tap)[0] == "cross":
        seen = key_mask(
            _spread_over_positions(key_padding_mask, batch_size, key_length)
        )
    else:
        # As in an encoder, a position without weight is not a key either.
        seen = ops.logical_and(causal_mask(queries), key_mask(queries))
    return queries[:, None, :, None] * ops.cast(seen, "float32")


def _spread_over_options(weights, num_rows):
    """Repeats the weight of each question for its options."""
    # A replica may have no examples.
    questions = ops.arange(num_rows) * ops.shape(weights)[0]
    return ops.take(weights, questions // ops.maximum(num_rows, 1))


def _spread_over_positions(weights, batch_size, length):
    """Returns float weights per position from any weights; ones for `None`."""
    shape = (batch_size, length)
    if weights is None:
        return ops.ones(shape, dtype="float32")
    weights = ops.cast(weights, "float32")
    if len(weights.shape) == 1:
        weights = weights[:, None]
    return ops.broadcast_to(weights, shape)
