"""Which sample weights count for what."""

from keras import ops

LABEL_WEIGHT = "label_weight"  # a feature beside the models' inputs


def objective_weights(tap, x, sample_weight):
    """The sample weights that count for a tap.

    Those of a masked-language model are of its predictions: they weigh the
    logits, and no other tensor has that axis.
    """
    of_predictions = (
        isinstance(x, dict)
        and "mask_positions" in x
        and sample_weight is not None
        and len(sample_weight.shape) > 1
    )
    return None if of_predictions and tap != "logits" else sample_weight


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
    weights = ops.cast(weights, sample_weight.dtype)
    ones = (1,) * (len(sample_weight.shape) - 1)
    return sample_weight * ops.reshape(weights, (-1, *ones))
