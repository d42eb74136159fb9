"""Private attributes of Keras and keras-hub, each behind a function.

No other module of kdkit reads an attribute of theirs that begins with an
underscore (`naming.py` and `layers.py` import modules from `keras.src`).
tests/numbers/test_private.py reads each of these attributes, so that it fails
if a new version of Keras or keras-hub renames one.

This module imports neither: families use it before TensorFlow is imported.
"""

import contextlib
from typing import Any, NamedTuple


class FeedForward(NamedTuple):
    """The dense layers of a block after its attention."""

    intermediate: Any
    output: Any
    gate: Any = None


class Projections(NamedTuple):
    """The dense layers of an attention layer."""

    query: Any
    key: Any
    value: Any
    output: Any


def self_attention(block):
    """Returns the self-attention layer of a keras-hub transformer block."""
    return block._self_attention_layer


def cross_attention(block):
    """Returns the cross-attention layer of a `TransformerDecoder`."""
    return block._cross_attention_layer


def layer_norm(block, part: str):
    """Returns the normalization of a part of a transformer block."""
    name = f"_{part}_layer_norm"
    return getattr(
        block, name if hasattr(block, name) else f"_{part}_layernorm"
    )


def dropout(block, part: str):
    """Returns the dropout of a part of a block, see `layer_norm`."""
    return getattr(block, f"_{part}_dropout")


def feed_forward(block) -> FeedForward:
    """Returns the feed-forward layers of a keras-hub transformer block."""
    return FeedForward(
        block._feedforward_intermediate_dense,
        block._feedforward_output_dense,
        getattr(block, "_feedforward_gate_dense", None),
    )


def projections(attention) -> Projections:
    """Returns the projections of an attention layer."""
    return Projections(
        attention._query_dense,
        attention._key_dense,
        attention._value_dense,
        attention._output_dense,
    )


def query_key_norms(attention) -> tuple:
    """Returns the normalizations of queries and keys in a Qwen 3."""
    return attention._query_dense_layer_norm, attention._key_dense_layer_norm


def masked_lm_layers(head) -> tuple:
    """Returns the dense layer and the norm of a `MaskedLMHead`."""
    return head._intermediate_dense, head._intermediate_layer_norm


def made_by(tensor) -> tuple:
    """Returns the operation that made a symbolic tensor, and its inputs."""
    operation, node, number = tensor._keras_history
    return operation, number, operation._inbound_nodes[node].input_tensors


def sublayers(layer) -> list:
    """Returns the layers that a layer or model tracks, one level down."""
    return list(layer._layers)


# The method of keras-hub's attention layers that gets queries, keys, values and
# the mask.
ATTENTION = "_compute_attention"


@contextlib.contextmanager
def replaced(layer, name: str, function):
    """Replaces a method of one layer; Keras does not track it."""
    vars(layer)[name] = function
    try:
        yield
    finally:
        del vars(layer)[name]


def is_rematerialized(layer) -> bool:
    """Whether a gradient runs a layer's `call` again."""
    scope = layer._remat_mode
    if scope is None or scope.mode == "list_of_layers":
        return scope is not None and layer.name in scope.layer_names
    return scope.mode in ("full", "larger_than")
