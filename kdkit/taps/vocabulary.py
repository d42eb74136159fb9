"""Logits over a vocabulary that are not there yet."""

from typing import Any
from typing import NamedTuple

from kdkit.errors import UsageError
from kdkit.models.families import DECODERS
from kdkit.models.families import family_of


class FactoredLogits(NamedTuple):
    """The two factors of a decoder's logits: states times embeddings.

    Logits of all positions are the largest tensor of a language model's step,
    as wide as the vocabulary. What needs them a few at a time takes these.

    Attributes:
        states: tensor of shape `(batch_size, sequence_length, hidden_dim)`.
            What the decoder gives for each position.
        embeddings: tensor of shape `(vocabulary_size, hidden_dim)`, of the same
            dtype.
    """

    states: Any
    embeddings: Any


def output_embeddings(model):
    """Returns the weights that turn a decoder's states into logits.

    Args:
        model: `keras_hub.models.CausalLM` of a family in
            `kdkit.models.families.DECODERS`.

    Returns:
        Tensor or variable of shape `(vocabulary_size, hidden_dim)`.

    Raises:
        UsageError: (a `ValueError`) for other models.
    """
    known = tuple(family.causal_lm for family in DECODERS.values())
    if not isinstance(model, known):
        raise UsageError(
            "Only the logits of a decoder are taken a few positions at a time. "
            f"Expected one of {[cls.__name__ for cls in known]}. Received: "
            f"{type(model).__name__}. Leave chunk_size out."
        )
    return family_of(model.backbone).output_embeddings(model.backbone)
