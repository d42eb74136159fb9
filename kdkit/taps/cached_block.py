"""A decoder's block for one new token, with what earlier ones left behind.

keras-hub's blocks give back the whole cache with every token, which copies it
several times; here the new keys and values come back alone. The private names
of `TransformerDecoder` that this needs are `_self_attention_layer`,
`_self_attention_layer_norm`, `_feedforward_layer_norm`,
`_feedforward_intermediate_dense` and `_feedforward_output_dense`.
"""

from keras import ops

MASKED = -1e9  # the attention logit of what is not there


def block_step(block, state, keys, values, is_past):
    """Runs a block on one position.

    Args:
        block: `keras_hub.layers.TransformerDecoder` without cross-attention.
        state: tensor of shape `(batch_size, 1, hidden_dim)`, what the block
            takes at the new position.
        keys: tensor of shape `(batch_size, num_heads, sequence_length,
            head_dim)`, those of the positions before. What stands behind them
            does not count, if it is finite.
        values: tensor of the same shape.
        is_past: bool tensor of shape `(sequence_length,)`, which positions
            these are.

    Returns:
        Tuple of the block's output, of the shape of `state`, and the new
        position's key and value, of shape `(batch_size, num_heads, 1,
        head_dim)`.
    """
    residual = state
    if block.normalize_first:
        state = block._self_attention_layer_norm(state)
    attended, key, value = _attend(
        block._self_attention_layer, state, keys, values, is_past
    )
    state = residual + attended
    if not block.normalize_first:
        state = block._self_attention_layer_norm(state)
    residual = state
    if block.normalize_first:
        state = block._feedforward_layer_norm(state)
    state = block._feedforward_intermediate_dense(state)
    state = residual + block._feedforward_output_dense(state)
    if not block.normalize_first:
        state = block._feedforward_layer_norm(state)
    return state, key, value


def _attend(attention, state, keys, values, is_past):
    # To (batch_size, num_heads, 1, head_dim).
    query, key, value = (
        ops.transpose(project(state), (0, 2, 1, 3))
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
