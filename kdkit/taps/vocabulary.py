"""Logits over a vocabulary that are not there yet."""

from typing import Any
from typing import NamedTuple

import keras_hub
from keras import ops

from kdkit.errors import UsageError


class FactoredLogits(NamedTuple):
    """The two factors of a decoder's logits.

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

    def dense(self):
        """Returns the logits: states times transposed embeddings."""
        return ops.matmul(self.states, ops.transpose(self.embeddings))


def output_embeddings(model):
    """Returns the weights that turn a decoder's states into logits.

    Args:
        model: `keras_hub.models.CausalLM`.

    Returns:
        Variable of shape `(vocabulary_size, hidden_dim)`.

    Raises:
        UsageError: (a `ValueError`) for other models.
    """
    if not isinstance(model, keras_hub.models.CausalLM):
        raise UsageError(
            "Only the logits of a decoder are taken a few positions at a time. "
            "Expected a keras_hub.models.CausalLM. Received: "
            f"{type(model).__name__}. Leave chunk_size out."
        )
    return model.backbone.token_embedding.embeddings
