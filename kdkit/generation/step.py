"""One step of a decoder: from a token to logits, keys and values."""

import dataclasses

from keras import ops

from kdkit.errors import UsageError
from kdkit.models.families import adapters_of, family_of


def num_positions(model) -> int | None:
    """Returns a decoder's maximum number of tokens, `None` for no limit."""
    return family_of(model.backbone).num_positions(model.backbone)


@dataclasses.dataclass(frozen=True)
class DecoderStep:
    """A decoder that reads one token at a time.

    The caller stores the keys and values of earlier tokens and passes them with
    every token. A step costs the same at every position, and nothing is
    computed twice.

    Args:
        model: a `keras_hub.models.CausalLM` of a family in
            `kdkit.models.families.DECODERS`.
        sequence_length: int. The capacity of the cache in positions.

    Call arguments:
        token_ids: int tensor of shape `(batch_size,)`.
        position: int tensor of shape `()`. The position of the tokens, from 0.
        cache: dict of tensors of shape `(batch_size, num_key_value_heads,
            sequence_length, head_dim)` by `cache_names`. Finite entries at and
            after `position` have no effect.

    Returns:
        A dict of `logits`, of shape `(batch_size, vocabulary_size)`, and
        `new_keys` and `new_values`, of shape `(num_layers, batch_size,
        num_key_value_heads, head_dim)`.

    Raises:
        UsageError: (a `ValueError`) if the model has fewer positions.
    """

    model: object
    sequence_length: int

    def __post_init__(self):
        longest = num_positions(self.model)
        if longest is not None and self.sequence_length > longest:
            raise UsageError(
                f"The model has {longest} positions. Received: "
                f"sequence_length={self.sequence_length}."
            )

    @property
    def cache_names(self) -> tuple[tuple[str, str], ...]:
        """The names of the keys and the values of each block."""
        return tuple(
            (f"keys_{index}", f"values_{index}")
            for index in range(len(self._blocks))
        )

    @property
    def cache_shape(self) -> tuple[int, int, int]:
        """`(num_key_value_heads, sequence_length, head_dim)`."""
        block, *_ = self._blocks
        heads = block.num_key_value_heads
        return (heads, self.sequence_length, block.head_dim)

    @property
    def _blocks(self):
        return adapters_of(self.model.backbone)[""]

    def __call__(self, token_ids, position, cache):
        backbone = self.model.backbone
        family = family_of(backbone)
        state = family.embed(backbone, token_ids, position)
        is_past = ops.arange(self.sequence_length) < position
        new_keys, new_values = [], []
        for block, names in zip(self._blocks, self.cache_names, strict=True):
            keys, values = (cache[name] for name in names)
            state, key, value = block.step(
                state, keys, values, is_past, position
            )
            new_keys.append(key[:, :, 0])
            new_values.append(value[:, :, 0])
        return {
            "logits": family.logits(backbone, state[:, 0]),
            "new_keys": ops.stack(new_keys),
            "new_values": ops.stack(new_values),
        }


@dataclasses.dataclass(frozen=True)
class Seq2SeqStep:
    """An encoder-decoder that writes one token at a time.

    The caller stores the keys and values of the source and of earlier tokens,
    so that nothing is computed twice.

    Args:
        model: `kdkit.models.MassSeq2SeqLM`.
        source_length: int. The length of sources in tokens, with padding.
        sequence_length: int. The capacity for a target in tokens.

    Raises:
        UsageError: (a `ValueError`) if the model has fewer positions.
    """

    model: object
    source_length: int
    sequence_length: int

    def __post_init__(self):
        longest = self.model.backbone.max_sequence_length
        length = max(self.source_length, self.sequence_length)
        if length > longest:
            raise UsageError(
                f"The model has {longest} positions. Received: a length of "
                f"{length}."
            )

    @property
    def cache_shape(self) -> tuple[int, int, int]:
        """`(num_heads, sequence_length, head_dim)`."""
        block, *_ = self._blocks
        heads = block.num_key_value_heads
        return (heads, self.sequence_length, block.head_dim)

    @property
    def source_names(self) -> tuple[tuple[str, str], ...]:
        """Names of the source's keys and values for each block."""
        return self._names("source_keys", "source_values")

    @property
    def cache_names(self) -> tuple[tuple[str, str], ...]:
        """Names of the keys and the values of each block."""
        return self._names("keys", "values")

    def encode(self, token_ids, padding_mask) -> dict:
        """Reads a source.

        Args:
            token_ids: int tensor of shape `(batch_size, source_length)`.
            padding_mask: int tensor of that shape, 0 for padding.

        Returns:
            A dict of float tensors of shape `(batch_size, num_heads,
            source_length, head_dim)` by `source_names`.
        """
        backbone = self.model.backbone
        # With one axis LiteRT can look up rows that have one scale each.
        tokens = backbone.token_embedding(ops.reshape(token_ids, (-1,)))
        encoded = backbone.encode_embedded(
            ops.reshape(tokens, (-1, self.source_length, backbone.hidden_dim)),
            padding_mask,
        )
        read = {}
        for block, names in zip(self._blocks, self.source_names, strict=True):
            made = block.source_keys_values(encoded)
            read |= dict(zip(names, made, strict=True))
        return read

    def step(self, token_ids, position, padding_mask, cache) -> dict:
        """Reads a token of the target, and returns the logits of the next.

        Args:
            token_ids: int tensor of shape `(batch_size,)`.
            position: int tensor of shape `()`. The position of the tokens,
                from 0.
            padding_mask: int tensor of shape `(batch_size, source_length)`.
            cache: dict of the result of `encode`, and of keys and values of
                shape `(batch_size, *cache_shape)` by `cache_names`. Finite
                entries at and after `position` have no effect.

        Returns:
            A dict of `logits`, of shape `(batch_size, vocabulary_size)`, and
            `new_keys` and `new_values`, of shape `(num_layers, batch_size,
            num_heads, head_dim)`, to be stored at `position`.
        """
        backbone = self.model.backbone
        state = backbone.token_embedding(token_ids)[:, None]
        table = backbone.decoder_position_embedding.position_embeddings
        state = backbone.decoder_embeddings_layer_norm(
            state + ops.take(table, position, axis=0)
        )
        is_past = ops.arange(self.sequence_length) < position
        is_real = ops.cast(padding_mask, "bool")
        new_keys, new_values = [], []
        for block, own, source_names in zip(
            self._blocks,
            self.cache_names,
            self.source_names,
            strict=True,
        ):
            keys, values = (cache[name] for name in own)
            source = (*(cache[name] for name in source_names), is_real)
            state, key, value = block.step(
                state, keys, values, is_past, position, source
            )
            new_keys.append(key[:, :, 0])
            new_values.append(value[:, :, 0])
        return {
            "logits": backbone.token_embedding(state[:, 0], reverse=True),
            "new_keys": ops.stack(new_keys),
            "new_values": ops.stack(new_values),
        }

    @property
    def _blocks(self):
        return adapters_of(self.model.backbone)["decoder"]

    def _names(self, keys, values):
        return tuple(
            (f"{keys}_{index}", f"{values}_{index}")
            for index in range(self.model.backbone.decoder_num_layers)
        )
