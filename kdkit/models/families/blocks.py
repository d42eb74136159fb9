"""Block adapters: one interface to the transformer blocks of all families."""

from typing import Any, NamedTuple

from kdkit.late import ops
from kdkit.taps import private

MASKED = -1e9  # the attention logit of a masked position


class Attention(NamedTuple):
    """The tensors that one call of an attention layer computes with.

    Attributes:
        queries: tensor of shape `(batch_size, query_length, num_heads,
            head_dim)`. With rotary positions they are already rotated.
        keys, values: tensors of shape `(batch_size, key_length, num_heads,
            head_dim)`, one for each query head.
        mask: `None` or tensor that broadcasts to `(batch_size, num_heads,
            query_length, key_length)`, true or 1 where attention is allowed.
    """

    queries: Any
    keys: Any
    values: Any
    mask: Any


class BlockAdapter:
    """Reads and runs one transformer block.

    A family's adapter defines what differs in its blocks: where the projections
    are, what else makes queries and keys, and how a decoder's block combines
    its parts (`run`). The methods of this class compute the rest: scores,
    grouped keys, and a decoder's cached step.

    Args:
        block: layer, an entry in the result of `Family.blocks`.

    Attributes:
        block: the layer.
        attention_method: string. The method of `attention` whose arguments
            `read` gets. Defaults to that of keras-hub's attention layers.
    """

    attention_method = private.ATTENTION

    def __init__(self, block):
        self.block = block

    @property
    def attention(self):
        """The layer that computes the block's self-attention."""
        return private.self_attention(self.block)

    @property
    def projections(self) -> private.Projections:
        """The dense layers of queries, keys, values and their output."""
        return private.projections(self.attention)

    @property
    def num_heads(self) -> int:
        """The number of query heads."""
        return self.projections.query.kernel.shape[1]

    @property
    def num_key_value_heads(self) -> int:
        """The number of heads of keys and values, a divisor of `num_heads`."""
        return self.projections.key.kernel.shape[1]

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return self.projections.query.kernel.shape[2]

    def read(self, query, key, value, attention_mask=None, *args, **kwargs):
        """Returns what attention computes with, from a call of its layer.

        Args:
            query, key, value, attention_mask: the first arguments of
                `attention_method`. keras-hub's attention layers project and
                rotate them and repeat groups before; their mask has the shape
                `(batch_size, query_length, key_length)`.
            args, kwargs: its other arguments.

        Returns:
            `Attention`.
        """
        mask = None if attention_mask is None else attention_mask[:, None]
        return Attention(query, key, value, mask)

    def queries(self, state, position=0):
        """Returns the queries that attention multiplies.

        With rotary positions they are already rotated.

        Args:
            state: tensor of shape `(batch_size, length, hidden_dim)`, the
                input of attention.
            position: int or int tensor of shape `()`. The position of the
                first token. Defaults to `0`.

        Returns:
            Tensor of shape `(batch_size, length, num_heads, head_dim)`.
        """
        return self.projections.query(state)

    def keys(self, state, position=0):
        """Returns the keys, see `queries`.

        Returns:
            Tensor of shape `(batch_size, length, num_key_value_heads,
            head_dim)`.
        """
        return self.projections.key(state)

    def values(self, state):
        """Returns the values, with the shape of the keys, see `queries`."""
        return self.projections.value(state)

    def attention_output(self, attended):
        """Projects the output of all heads to the hidden width.

        Args:
            attended: tensor of shape `(batch_size, length, num_heads,
                head_dim)`.
        """
        return self.projections.output(attended)

    def run(self, state, attend, attend_to_source=None):
        """Runs the block with the caller's attention.

        Args:
            state: tensor of shape `(batch_size, length, hidden_dim)`.
            attend: callable from the input of self-attention to its output,
                both with the shape of `state`.
            attend_to_source: callable, the same for cross-attention. Defaults
                to `None`, for blocks without it.

        Returns:
            The block's output, of the shape of `state`.
        """
        raise NotImplementedError

    def scores(self, queries, keys):
        """Returns QKᵀ/√d, before mask and softmax.

        Args:
            queries: tensor of shape `(batch_size, query_length, num_heads,
                head_dim)`.
            keys: tensor of shape `(batch_size, key_length, num_heads,
                head_dim)`.

        Returns:
            Tensor of shape `(batch_size, num_heads, query_length,
            key_length)`.
        """
        return ops.einsum("bqhd,bkhd->bhqk", self._scaled(queries), keys)

    def step(self, state, keys, values, is_past, position, source=None):
        """Runs a decoder's block on one new position.

        keras-hub's blocks return the whole cache with every token, which copies
        it several times. Here only the new key and value are returned.

        Args:
            state: tensor of shape `(batch_size, 1, hidden_dim)`, the block's
                input at the new position.
            keys: tensor of shape `(batch_size, num_key_value_heads,
                sequence_length, head_dim)`, the keys of earlier positions.
                Finite values at other positions have no effect.
            values: tensor of the same shape.
            is_past: bool tensor of shape `(sequence_length,)`, true for earlier
                positions.
            position: int tensor of shape `()`, the new position.
            source: for a block with cross-attention a tuple of the keys and
                values of `source_keys_values`, and a bool tensor of shape
                `(batch_size, source_length)`, false for padding. Defaults to
                `None`.

        Returns:
            Tuple of the block's output, with the shape of `state`, and the new
            key and value, of shape `(batch_size, num_key_value_heads, 1,
            head_dim)`.
        """
        new = []

        def attend(state):
            key, value = (
                self._by_group(projected, 1)
                for projected in (
                    self.keys(state, position),
                    self.values(state),
                )
            )
            new.extend((key, value))
            query = self._grouped_query(state, position)
            past = ops.einsum("bgqd,bgkd->bgqk", query, keys)
            past = ops.where(is_past, past, MASKED)
            own = ops.sum(query * key, axis=-1, keepdims=True)
            probs = ops.softmax(ops.concatenate([past, own], axis=-1))
            length = keys.shape[2]
            attended = ops.matmul(probs[..., :length], values)
            attended = attended + probs[..., length:] * value
            return self._output(attended)

        def attend_to_source(state):
            return self.cross_attention.attend_to(state, *source)

        output = self.run(
            state, attend, None if source is None else attend_to_source
        )
        return output, *new

    def source_keys_values(self, encoded) -> tuple:
        """Returns the keys and values that cross-attention computes.

        Args:
            encoded: tensor of shape `(batch_size, source_length, hidden_dim)`.

        Returns:
            Tuple of two tensors of shape `(batch_size, num_heads,
            source_length, head_dim)`.
        """
        cross = self.cross_attention
        return tuple(
            ops.transpose(project(encoded), (0, 2, 1, 3))
            for project in (cross.keys, cross.values)
        )

    def attend_to(self, state, keys, values, is_real):
        """Attends from one token to given keys and values.

        Args:
            state: tensor of shape `(batch_size, 1, hidden_dim)`.
            keys, values: tensors of shape `(batch_size, num_key_value_heads,
                key_length, head_dim)`.
            is_real: bool tensor of shape `(batch_size, key_length)`.
        """
        query = self._grouped_query(state, 0)
        logits = ops.einsum("bgqd,bgkd->bgqk", query, keys)
        logits = ops.where(is_real[:, None, None], logits, MASKED)
        attended = ops.matmul(ops.softmax(logits), values)
        return self._output(attended)

    def _scaled(self, queries):
        return queries * ops.cast(self.head_dim**-0.5, queries.dtype)

    def _grouped_query(self, state, position):
        """Returns one token's queries: `(batch_size, groups, per group,
        head_dim)`.
        """
        repeats = self.num_heads // self.num_key_value_heads
        queries = self.queries(state, position)
        return self._scaled(self._by_group(queries, repeats))

    def _by_group(self, projected, size):
        batch_size = ops.shape(projected)[0]
        shape = (batch_size, self.num_key_value_heads, size, self.head_dim)
        return ops.reshape(projected, shape)

    def _output(self, attended):
        """Projects the attended values of one token, see `_grouped_query`."""
        batch_size = ops.shape(attended)[0]
        shape = (batch_size, 1, self.num_heads, self.head_dim)
        return self.attention_output(ops.reshape(attended, shape))


class EncoderBlock(BlockAdapter):
    """Adapter of `keras_hub.layers.TransformerEncoder`."""

    def set_functions(self, activation, layer_norm_epsilon):
        """Sets the activation and the epsilon of normalization."""
        block = self.block
        block.activation = activation
        private.feed_forward(block).intermediate.activation = activation
        block.layer_norm_epsilon = layer_norm_epsilon
        for part in ("self_attention", "feedforward"):
            private.layer_norm(block, part).epsilon = layer_norm_epsilon


class DecoderBlock(EncoderBlock):
    """Adapter of `keras_hub.layers.TransformerDecoder`."""

    @property
    def cross_attention(self):
        """The adapter for the block's attention to an encoder's states."""
        return _CrossAttention(self.block)

    def run(self, state, attend, attend_to_source=None):
        state = self._add("self_attention", state, attend)
        if attend_to_source is not None:
            state = self._add("cross_attention", state, attend_to_source)
        return self._add("feedforward", state, self._feed_forward)

    def _feed_forward(self, state):
        layers = private.feed_forward(self.block)
        return layers.output(layers.intermediate(state))

    def _add(self, part, state, function):
        """Adds a part's output to a state, and normalizes."""
        layer_norm = private.layer_norm(self.block, part)
        dropout = private.dropout(self.block, part)
        first = self.block.normalize_first
        state = state + dropout(function(layer_norm(state) if first else state))
        return state if first else layer_norm(state)


class _CrossAttention(EncoderBlock):
    """The cross-attention of a `TransformerDecoder`."""

    @property
    def attention(self):
        return private.cross_attention(self.block)
