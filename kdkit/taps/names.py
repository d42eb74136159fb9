"""The names of the taps."""

from collections.abc import Callable

SENTENCE_EMBEDDING = "sentence_embedding"  # the output of an embedder
OUTPUT_TAPS = (
    "logits",
    "embedding_output",
    "pooled_output",
    SENTENCE_EMBEDDING,
)
STATE_TAPS = ("hidden_states", "cls_states")
ATTENTION_TAPS = ("attention_logits", "attention_probs")
VECTOR_TAPS = ("queries", "keys", "values")
PER_LAYER_TAPS = STATE_TAPS + ATTENTION_TAPS + VECTOR_TAPS
TAPS = OUTPUT_TAPS + PER_LAYER_TAPS

# Kinds of tensors with an axis of positions, where padding does not count. Each
# half of an encoder-decoder has them. "cross" is the attention of its decoder
# to the encoder's output.
POSITION_TAPS = (
    "embedding_output",
    "hidden_states",
    *ATTENTION_TAPS,
    *VECTOR_TAPS,
)
_PART_KINDS = {
    "encoder": POSITION_TAPS,
    "decoder": POSITION_TAPS,
    "cross": ATTENTION_TAPS,
}
SEQ2SEQ_TAPS = tuple(
    f"{part}_{kind}" for part, kinds in _PART_KINDS.items() for kind in kinds
)

# The beginnings of the names of other taps: the output of the layer with the
# name behind it, or of a function of such outputs.
LAYER, FUNCTION = "layer:", "function:"
CLS_INDEX = 0  # the position of [CLS], or of the token that replaces it
# The feature of a batch with cached teacher outputs: a tuple with one dict of
# tensors by `Entry.name` for each teacher. With it no teacher runs.
TEACHER_OUTPUTS = "teacher_outputs"


def split_tap(tap: str) -> tuple[str, str]:
    """Returns the part of a model that a tap belongs to, and the tap's kind.

    The part is `"encoder"`, `"decoder"` or `"cross"` for an encoder-decoder,
    and empty for other models. The kind is one of `TAPS`.

    >>> split_tap("cross_attention_probs")
    ('cross', 'attention_probs')
    >>> split_tap("hidden_states")
    ('', 'hidden_states')
    """
    if tap not in SEQ2SEQ_TAPS:
        return "", tap
    part, _, kind = tap.partition("_")
    return part, kind


def reads_source(tap: str) -> bool:
    """Returns whether a tap depends on the tokens of the encoder's input.

    >>> reads_source("cross_attention_probs"), reads_source("hidden_states")
    (True, False)
    """
    return split_tap(tap)[0] in ("encoder", "cross")


def name_tap(part: str, kind: str) -> str:
    """Returns the tap's name for a part and a kind: `split_tap` reversed."""
    return f"{part}_{kind}" if part else kind


def tap_name(tap: str | Callable) -> str:
    """Returns the name under which a model returns a tap.

    >>> def last_row(outputs):
    ...     return outputs["block_3"][:, -1]
    >>> tap_name("layer:block_3"), tap_name(last_row)
    ('layer:block_3', 'function:last_row')
    """
    if isinstance(tap, str):
        return tap
    name = getattr(tap, "__qualname__", type(tap).__qualname__)
    return FUNCTION + name.rpartition("<locals>.")[2]


def is_layer_tap(tap) -> bool:
    """Whether a tap is a layer's output, or a function of such outputs.

    >>> is_layer_tap("layer:block_3"), is_layer_tap("hidden_states")
    (True, False)
    """
    return callable(tap) or (
        isinstance(tap, str) and tap.startswith((LAYER, FUNCTION))
    )
