"""Layers in the form that LiteRT runs fastest, while a model is exported.

The values are the same. In the form of Keras, LiteRT's XNNPACK delegate does
not run the two selections by the mask, a transposition of all attention scores
is left over, the shapes of dense layers on sequences of any number of rows are
computed at run time, and the position embeddings are copied for each row.
"""

import contextlib

import keras
import keras_hub
from keras import ops

from kdkit.taps import private

# Added to the scores of padded keys. Their probabilities are 0 in float32 while
# real scores are above -9,800; half precision can represent it.
MASKED = -1e4
LEAST = -2.4e38  # the sum with a score is this number itself


@contextlib.contextmanager
def fast_layers(model):
    """Changes how attention and dense layers of a model compute."""
    with contextlib.ExitStack() as stack:
        for layer in _all_layers(model):
            # Not subclasses, which compute something else.
            if type(layer) is keras.layers.MultiHeadAttention:
                name, made = private.ATTENTION, _attention(layer)
            elif type(layer) is keras.layers.Dense:
                name, made = "call", _dense(layer)
            elif type(layer) is keras_hub.layers.PositionEmbedding:
                name, made = "call", _positions(layer)
            else:
                continue
            stack.enter_context(private.replaced(layer, name, made))
        yield


def _all_layers(model):
    """Returns all layers in a model, each once."""
    found, queue = {}, [model]
    while queue:
        layer = queue.pop()
        if id(layer) not in found:
            found[id(layer)] = layer
            queue += private.sublayers(layer)
    return list(found.values())


def _attention(layer):
    usual = getattr(layer, private.ATTENTION)

    def attend(
        query,
        key,
        value,
        attention_mask=None,
        training=None,
        return_attention_scores=False,
    ):
        is_padding = attention_mask is None or (
            len(attention_mask.shape) == 3 and attention_mask.shape[1] == 1
        )
        if not is_padding or return_attention_scores or len(query.shape) != 4:
            return usual(
                query,
                key,
                value,
                attention_mask=attention_mask,
                training=training,
                return_attention_scores=return_attention_scores,
            )
        query = ops.multiply(query, layer.key_dim**-0.5)
        # (batch_size, num_heads, length, head_dim)
        query, key, value = (
            ops.transpose(one, (0, 2, 1, 3)) for one in (query, key, value)
        )
        scores = ops.matmul(query, ops.swapaxes(key, -1, -2))
        if attention_mask is not None:
            real = ops.cast(attention_mask, query.dtype)
            # In a row of padding alone, Keras returns zeros, but the mean of
            # all values from a layer without dropout.
            least = MASKED if layer.dropout else LEAST
            scores = scores + ops.expand_dims((1 - real) * least, 1)
            if layer.dropout:
                value = value * ops.expand_dims(ops.swapaxes(real, -1, -2), 1)
        output = ops.matmul(ops.softmax(scores), value)
        return ops.transpose(output, (0, 2, 1, 3)), None

    return attend


def _dense(layer):
    usual = layer.call

    def call(inputs, training=None):
        if len(inputs.shape) != 3 or layer.dtype_policy.quantization_mode:
            return usual(inputs, training=training)
        # As one matrix product: `ops.matmul` would compute the shapes.
        output = ops.einsum("abc,cd->abd", inputs, layer.kernel)
        if layer.bias is not None:
            output = output + layer.bias
        if layer.activation is not None:
            output = layer.activation(output)
        return output

    return call


def _positions(layer):
    usual = layer.call

    def call(inputs, start_index=0, positions=None):
        length = inputs.shape[-2]
        is_usual = len(inputs.shape) == 3 and isinstance(start_index, int)
        if positions is not None or length is None or not is_usual:
            return usual(inputs, start_index, positions)
        table = layer.position_embeddings[start_index : start_index + length]
        return ops.expand_dims(ops.convert_to_tensor(table), 0)

    return call
