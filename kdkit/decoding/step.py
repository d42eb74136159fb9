"""One step of a decoder: a token in, logits and its keys and values out."""

import dataclasses

from keras import ops

from kdkit.errors import UsageError
from kdkit.models.families import DECODERS
from kdkit.models.families import adapters_of
from kdkit.models.families import family_of


def num_positions(model) -> int | None:
    """How many tokens a decoder reads at most, `None` for any number.

    Raises:
        UsageError: (a `ValueError`) if the model is no decoder.
    """
    backbone = getattr(model, "backbone", None)
    family = family_of(backbone)
    if family is None or not family.is_decoder:
        known = [family.title for family in DECODERS.values()]
        raise UsageError(
            f"Only decoders ({', '.join(known)}) read one token at a time. "
            f"Received: {type(model).__name__}."
        )
    return family.num_positions(backbone)


@dataclasses.dataclass(frozen=True)
class DecoderStep:
    """A decoder that reads one token at a time.

    The caller keeps the keys and values of the tokens so far, and gives them
    with every token: a step costs the same at every position, and nothing that
    was computed is computed again.

    Args:
        model: a `keras_hub.models.CausalLM` of a family in
            `kdkit.models.families.DECODERS`.
        sequence_length: int. Positions that there is room for.

    Call arguments:
        token_ids: int tensor of shape `(batch_size,)`.
        position: int tensor of shape `()`. Where the tokens stand, from 0.
        cache: dict of tensors of shape `(batch_size, num_key_value_heads,
            sequence_length, head_dim)` by `cache_names`. Entries at `position`
            and behind it do not count, if they are finite.

    Returns:
        A dict of `logits`, of shape `(batch_size, vocabulary_size)`, and
        `new_keys` and `new_values`, of shape `(num_layers, batch_size,
        num_key_value_heads, head_dim)`.

    Raises:
        UsageError: (a `ValueError`) if the model is no decoder or has fewer
            positions.
    """

    model: object
    sequence_length: int

    def __post_init__(self):
        longest = num_positions(self.model)
        if self.sequence_length < 1 or (
            longest is not None and self.sequence_length > longest
        ):
            expected = "1 or more"
            if longest is not None:
                expected = f"1 to {longest}, the model's positions"
            raise UsageError(
                f"Expected a sequence length of {expected}. Received: "
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
