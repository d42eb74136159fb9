"""Which weights count for what: those of the data, and those of masks."""

from keras import ops

from kdkit.taps import ATTENTION_TAPS
from kdkit.taps import CLS_INDEX
from kdkit.taps import VECTOR_TAPS
from kdkit.taps import causal_mask
from kdkit.taps import key_mask
from kdkit.taps import padding_masks
from kdkit.taps import split_tap

LABEL_WEIGHT = "label_weight"  # a feature beside the models' inputs
# Kinds of taps with a position axis: padding does not count there.
MASKED_TAPS = (
    "embedding_output",
    "hidden_states",
    *ATTENTION_TAPS,
    *VECTOR_TAPS,
)


def objective_weights(tap, x, sample_weight):
    """The sample weights that count for a tap.

    Those of a masked-language model are of its predictions: they weigh the
    logits, and no other tensor has that axis. Those of an encoder-decoder are
    of its decoder's positions, which its encoder does not have.
    """
    if sample_weight is None or len(sample_weight.shape) == 1:
        return sample_weight
    of_predictions = isinstance(x, dict) and "mask_positions" in x
    if of_predictions and tap != "logits":
        return None
    part, _ = split_tap(tap)
    of_decoder = sample_weight.shape[1] != 1
    return None if of_decoder and part == "encoder" else sample_weight


def objective_masks(tap, x):
    """The padding masks of the queries and of the keys of a tap.

    Predictions of a masked-language model have no padding: what is none has no
    sample weight. Logits of an encoder-decoder are of its decoder's positions.
    """
    if tap != "logits":
        part, _ = split_tap(tap)
        return padding_masks(x, part)
    if not isinstance(x, dict) or "mask_positions" in x:
        return None, None
    return x.get("decoder_padding_mask", x.get("padding_mask")), None


def label_weights(x, sample_weight):
    """The sample weights that count for the labels.

    The feature `label_weight`, of shape `(batch,)`, multiplies those of the
    data: with 0 a row has no label, and is there for the teacher to label.
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
    """Weights of the positions of a tensor: those of the data, or ones."""
    return _of_positions(sample_weight, *ops.shape(tensor)[:2])


def combine_weights(tap, tensor, padding_mask, sample_weight):
    """Multiplies the padding mask of a tap with the data's sample weights.

    Where there is one vector per example (a tensor of rank 2: [CLS] states,
    the logits of a classifier), a weight per position is that of [CLS]. The
    weight of a question is that of all its options. Of logits per position,
    a weight per position says by itself what counts.
    """
    if sample_weight is not None:
        sample_weight = ops.cast(sample_weight, "float32")
        if len(sample_weight.shape) == 2 and sample_weight.shape[1] == 1:
            sample_weight = sample_weight[:, 0]
        if len(sample_weight.shape) == 2 and len(tensor.shape) == 2:
            sample_weight = sample_weight[:, CLS_INDEX]
        if len(sample_weight.shape) == 1:
            sample_weight = _of_rows(sample_weight, ops.shape(tensor)[0])
    if not _takes_mask(tap, tensor, padding_mask, sample_weight):
        return sample_weight
    mask = ops.cast(padding_mask, "float32")
    if sample_weight is None:
        return mask
    if len(sample_weight.shape) == 1:
        sample_weight = sample_weight[:, None]
    return mask * sample_weight


def _takes_mask(tap, tensor, padding_mask, sample_weight):
    """Whether the positions of a tensor are those of a padding mask."""
    _, kind = split_tap(tap)
    if padding_mask is None or kind != "logits":
        return padding_mask is not None and kind in MASKED_TAPS
    per_position = sample_weight is not None and len(sample_weight.shape) == 2
    if per_position or len(tensor.shape) != 3:
        return False
    lengths = {tensor.shape[1], padding_mask.shape[1]} - {None}
    return len(lengths) < 2


def in_pairs(tap) -> bool:
    """Whether a weight per position does not tell what counts in a tap.

    It does in an encoder, where a token sees all that are not padding.
    """
    part, kind = split_tap(tap)
    return kind in ATTENTION_TAPS and part in ("decoder", "cross")


def pair_weights(tap, attention, weights, key_padding_mask):
    """Weights of the pairs of a query and a key that it may see.

    Args:
        tap: string.
        attention: tensor of the tap, of shape `(batch_size, num_heads,
            query_length, key_length)` if it is one of attention.
        weights: as `combine_weights` returns them: those of the queries.
        key_padding_mask: `None` or the padding mask of the keys.

    Returns:
        The weights as they are where they tell what counts, or a tensor of
        shape `(batch_size, 1, query_length, key_length)`.
    """
    if not in_pairs(tap):
        return weights
    batch_size, _, query_length, key_length = ops.shape(attention)
    queries = _of_positions(weights, batch_size, query_length)
    if split_tap(tap)[0] == "cross":
        seen = key_mask(_of_positions(key_padding_mask, batch_size, key_length))
    else:
        # As in an encoder, what has no weight is no key either.
        seen = ops.logical_and(causal_mask(queries), key_mask(queries))
    return queries[:, None, :, None] * ops.cast(seen, "float32")


def _of_rows(weights, num_rows):
    """Weights of questions as those of their options, which are as many."""
    # A replica may have no rows at all.
    questions = ops.arange(num_rows) * ops.shape(weights)[0]
    return ops.take(weights, questions // ops.maximum(num_rows, 1))


def _of_positions(weights, batch_size, length):
    """Weights per example or position as floats per position; ones of none."""
    shape = (batch_size, length)
    if weights is None:
        return ops.ones(shape, dtype="float32")
    weights = ops.cast(weights, "float32")
    if len(weights.shape) == 1:
        weights = weights[:, None]
    return ops.broadcast_to(weights, shape)
