"""A decoder's block for one new token, with what earlier ones left behind.

keras-hub's blocks give back the whole cache with every token, which copies it
several times; here the new keys and values come back alone. The private names
of `TransformerDecoder` that this needs are `_self_attention_layer` and
`_cross_attention_layer`.
"""

from keras import ops

from kdkit.taps.decoder_block import run_block

MASKED = -1e9  # the attention logit of what is not there


def source_keys_values(block, encoded):
    """What a block's attention to the source reads of it.

    Args:
        block: `keras_hub.layers.TransformerDecoder` with cross-attention.
        encoded: tensor of shape `(batch_size, source_length, hidden_dim)`.

    Returns:
        Tuple of keys and values, of shape `(batch_size, num_heads,
        source_length, head_dim)`.
    """
    attention = block._cross_attention_layer
    return tuple(
        _by_head(project(encoded))
        for project in (attention.key_dense, attention.value_dense)
    )


def block_step(block, state, keys, values, is_past, source=None):
    """Runs a block on one position.

    Args:
        block: `keras_hub.layers.TransformerDecoder`.
        state: tensor of shape `(batch_size, 1, hidden_dim)`, what the block
            takes at the new position.
        keys: tensor of shape `(batch_size, num_heads, sequence_length,
            head_dim)`, those of the positions before. What stands behind them
            does not count, if it is finite.
        values: tensor of the same shape.
        is_past: bool tensor of shape `(sequence_length,)`, which positions
            these are.
        source: `None` for a block without cross-attention, or a tuple of keys
            and values of the source, as `source_keys_values` returns them, and
            a bool tensor of shape `(batch_size, source_length)`, which of its
            tokens are not padding. Defaults to `None`.

    Returns:
        Tuple of the block's output, of the shape of `state`, and the new
        position's key and value, of shape `(batch_size, num_heads, 1,
        head_dim)`.
    """
    new = []

    def attend(state):
        attended, *key_and_value = _attend(
            block._self_attention_layer, state, keys, values, is_past
        )
        new.extend(key_and_value)
        return attended

    def attend_to_source(state):
        return _attend_to_source(block._cross_attention_layer, state, *source)

    output = run_block(
        block, state, attend, None if source is None else attend_to_source
    )
    return output, *new


def _attend(attention, state, keys, values, is_past):
    query, key, value = (
        _by_head(project(state))
        for project in (
            attention.query_dense,
            attention.key_dense,
            attention.value_dense,
        )
    )
    query = query * ops.cast(attention.key_dim**-0.5, query.dtype)
    past = ops.einsum("bhqd,bhkd->bhqk", query, keys)
    past = ops.where(is_past, past, MASKED)
    own = ops.sum(query * key, axis=-1, keepdims=True)
    probs = ops.softmax(ops.concatenate([past, own], axis=-1))
    length = keys.shape[2]
    read = ops.matmul(probs[..., :length], values)
    read = read + probs[..., length:] * value
    output = attention.output_dense(ops.transpose(read, (0, 2, 1, 3)))
    return output, key, value


def _attend_to_source(attention, state, keys, values, is_real):
    query = _by_head(attention.query_dense(state))
    query = query * ops.cast(attention.key_dim**-0.5, query.dtype)
    logits = ops.einsum("bhqd,bhkd->bhqk", query, keys)
    logits = ops.where(is_real[:, None, None], logits, MASKED)
    read = ops.matmul(ops.softmax(logits), values)
    return attention.output_dense(ops.transpose(read, (0, 2, 1, 3)))


def _by_head(projected):
    """To `(batch_size, num_heads, length, head_dim)`."""
    return ops.transpose(projected, (0, 2, 1, 3))
