r"""Fake quantisation: values rounded to integers and back, with a gradient.

A quantised tensor represents $x$ by the integer
$q = \mathrm{clip}(\mathrm{round}(x / s) + z)$ with scale $s$ and zero point
$z$. Fake quantisation replaces $x$ by $\hat x = s (q - z)$. The derivative of
rounding is 0 almost everywhere. The straight-through estimator (Bengio et al.,
2013, https://arxiv.org/abs/1308.3432) passes the gradient of $\hat x$ on to
$x$, within the range of the integers, as Jacob et al. (2018,
https://arxiv.org/abs/1712.05877) do.
"""

import keras
from keras import ops

ACTIVATION_BITS = 8


def fake_quantize_weights(kernel, num_bits=8, block_size=None):
    r"""Rounds a dense layer's kernel to symmetric integers.

    $\hat w = s \, \mathrm{round}(w / s)$ with
    $s = \max |w| / (2^{b - 1} - 1)$. Each output unit has its own scale, or one
    for each block of its inputs, which is rounded to bfloat16. The gradient of
    $\hat w$ is passed on to $w$ unchanged.

    Args:
        kernel: tensor of shape `(num_inputs, num_units)`.
        num_bits: int, $b$. Defaults to `8`.
        block_size: int or `None`. The number of consecutive inputs with the
            same scale. Without effect if it does not divide `num_inputs`.
            Defaults to `None`, all inputs.

    Returns:
        Tensor of the shape of `kernel`.
    """
    num_inputs, num_units = kernel.shape
    has_blocks = block_size is not None and num_inputs % block_size == 0
    blocks = ops.reshape(
        kernel, (-1, block_size if has_blocks else num_inputs, num_units)
    )
    scale = _scale(blocks, num_bits, axis=1)
    if has_blocks:
        scale = ops.cast(ops.cast(scale, "bfloat16"), scale.dtype)
    rounded = ops.reshape(ops.round(blocks / scale) * scale, kernel.shape)
    return _straight_through(kernel, rounded)


def fake_quantize_bias(bias, kernel, low, high):
    r"""Rounds a bias to multiples of the scales of inputs and kernel.

    A file adds the bias to the integers of a product, whose step is the product
    of both scales. The gradient is passed on unchanged.

    Args:
        bias: tensor of shape `(num_units,)`.
        kernel: tensor of shape `(num_inputs, num_units)`, quantised to 8 bits.
        low: float, the lower end of the range of the inputs, at most 0.
        high: float, the upper end, at least 0.

    Returns:
        Tensor of the shape of `bias`.
    """
    scale = ops.squeeze(_scale(kernel, 8, axis=0), 0)
    step = _nonzero(scale * ((high - low) / (2**ACTIVATION_BITS - 1)))
    return _straight_through(bias, ops.round(bias / step) * step)


def fake_quantize_embeddings(outputs, table):
    r"""Rounds the rows that an embedding looks up, with the table's scale.

    The formula is that of `fake_quantize_activations`, with the smallest and
    the largest weight of the table, and 0, as range. The gradient is passed on
    unchanged.

    Args:
        outputs: tensor of any shape, rows of the table.
        table: tensor of shape `(num_rows, width)`.

    Returns:
        Tensor of the shape of `outputs`.
    """
    return _round_within(outputs, ops.min(table), ops.max(table))


def fake_quantize_activations(inputs, low, high):
    r"""Rounds activations to 8 bits, with one scale and one zero point.

    $\hat x = s (\mathrm{clip}(\mathrm{round}(x / s) + z, 0, 255) - z)$ with
    $s = (h - l) / 255$ and $z = \mathrm{round}(-l / s)$, so that 0 is exact.
    The gradient of $\hat x$ is passed on to $x$ within the range; it is 0
    outside of the range.

    Args:
        inputs: tensor of any shape.
        low: float, $l$, at most 0.
        high: float, $h$, at least 0.

    Returns:
        Tensor of the shape of `inputs`.
    """
    return keras.quantizers.fake_quant_with_min_max_vars(
        inputs, low, high, num_bits=ACTIVATION_BITS
    )


def fake_quantize_rows(inputs, num_axes=1):
    r"""Rounds activations to 8 bits, with a range for each row.

    The formula is that of `fake_quantize_activations`, with the smallest and
    the largest value of a row, and 0, as range. A file without ranges does the
    same at run time. The gradient is passed on unchanged.

    Args:
        inputs: tensor of shape `(..., width)`.
        num_axes: int. The number of last axes that are a row, such as `2` for
            `(num_heads, head_dim)`. Defaults to `1`.

    Returns:
        Tensor of the shape of `inputs`.
    """
    axes = tuple(range(-num_axes, 0))
    return _round_within(
        inputs,
        ops.min(inputs, axis=axes, keepdims=True),
        ops.max(inputs, axis=axes, keepdims=True),
    )


def _round_within(values, low, high):
    """Rounds to asymmetric integers, with ranges that change in training."""
    low, high = ops.minimum(low, 0), ops.maximum(high, 0)
    largest = 2**ACTIVATION_BITS - 1
    scale = _nonzero((high - low) / largest)
    zero_point = ops.round(-low / scale)
    integers = ops.clip(ops.round(values / scale) + zero_point, 0, largest)
    return _straight_through(values, (integers - zero_point) * scale)


def _scale(values, num_bits, axis):
    """The scale of symmetric integers."""
    largest = ops.max(ops.abs(values), axis=axis, keepdims=True)
    return _nonzero(largest / (2 ** (num_bits - 1) - 1))


def _nonzero(scale):
    """The scale, 1 where all values are 0."""
    return ops.where(scale > 0, scale, ops.ones_like(scale))


def _straight_through(values, rounded):
    return values + ops.stop_gradient(rounded - values)
