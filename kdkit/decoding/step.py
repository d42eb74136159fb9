"""One step of a decoder: a token in, logits and its keys and values out."""

import dataclasses

from keras import ops

from kdkit import taps
from kdkit.errors import UsageError
from kdkit.families import DECODERS
from kdkit.families import blocks_of
from kdkit.families import family_of


def num_positions(model) -> int:
    """How many tokens a decoder reads at most.

    Raises:
        UsageError: (a `ValueError`) if the model is no decoder.
    """
    backbone = getattr(model, "backbone", None)
    if family_of(backbone) not in DECODERS.values():
        known = [family.title for family in DECODERS.values()]
        raise UsageError(
            f"Only decoders ({', '.join(known)}) read one token at a time. "
            f"Received: {type(model).__name__}."
        )
    return backbone.max_sequence_length


@dataclasses.dataclass(frozen=True)
class DecoderStep:
    """A decoder that reads one token at a time.

    The caller keeps the keys and values of the tokens so far, and gives them
    with every token: a step costs the same at every position, and nothing that
    was computed is computed again.

    Args:
        model: a `keras_hub.models.CausalLM` of a family in
            `kdkit.families.DECODERS`.
        sequence_length: int. Positions that there is room for.

    Call arguments:
        token_ids: int tensor of shape `(batch_size,)`.
        position: int tensor of shape `()`. Where the tokens stand, from 0.
        cache: dict of tensors of shape `(batch_size, num_heads,
            sequence_length, head_dim)` by `cache_names`. What stands at
            `position` and behind it does not count, if it is finite.

    Returns:
        A dict of `logits`, of shape `(batch_size, vocabulary_size)`, and
        `new_keys` and `new_values`, of shape `(num_layers, batch_size,
        num_heads, head_dim)`.

    Raises:
        UsageError: (a `ValueError`) if the model is no decoder or has fewer
            positions.
    """

    model: object
    sequence_length: int

    def __post_init__(self):
        longest = num_positions(self.model)
        if not 1 <= self.sequence_length <= longest:
            raise UsageError(
                f"Expected a sequence length of 1 to {longest}, the model's "
                f"positions. Received: sequence_length={self.sequence_length}."
            )

    @property
    def cache_names(self) -> tuple[tuple[str, str], ...]:
        """The names of the keys and the values of each block."""
        return tuple(
            (f"keys_{index}", f"values_{index}")
            for index in range(len(blocks_of(self.model.backbone)))
        )

    @property
    def cache_shape(self) -> tuple[int, int, int]:
        """`(num_heads, sequence_length, head_dim)`."""
        backbone = self.model.backbone
        head_dim = backbone.hidden_dim // backbone.num_heads
        return (backbone.num_heads, self.sequence_length, head_dim)

    def __call__(self, token_ids, position, cache):
        backbone = self.model.backbone
        state = backbone.token_embedding(token_ids)[:, None]
        positions = backbone.position_embedding.position_embeddings
        state = state + ops.take(positions, position, axis=0)
        is_past = ops.arange(self.sequence_length) < position
        new_keys, new_values = [], []
        for block, names in zip(
            blocks_of(backbone), self.cache_names, strict=True
        ):
            keys, values = (cache[name] for name in names)
            state, key, value = taps.block_step(
                block, state, keys, values, is_past
            )
            new_keys.append(key[:, :, 0])
            new_values.append(value[:, :, 0])
        state = backbone.layer_norm(state)[:, 0]
        return {
            "logits": backbone.token_embedding(state, reverse=True),
            "new_keys": ops.stack(new_keys),
            "new_values": ops.stack(new_values),
        }
