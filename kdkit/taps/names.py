"""The names of the taps."""

OUTPUT_TAPS = ("logits", "embedding_output", "pooled_output")
STATE_TAPS = ("hidden_states", "cls_states")
ATTENTION_TAPS = ("attention_logits", "attention_probs")
VECTOR_TAPS = ("queries", "keys", "values")
PER_LAYER_TAPS = STATE_TAPS + ATTENTION_TAPS + VECTOR_TAPS
TAPS = OUTPUT_TAPS + PER_LAYER_TAPS

# The same kinds of tensors of the parts of an encoder-decoder. Its decoder's
# attention to what the encoder read is a part of its own.
_OF_HALVES = (
    "embedding_output",
    "hidden_states",
    *ATTENTION_TAPS,
    *VECTOR_TAPS,
)
_OF_PARTS = {
    "encoder": _OF_HALVES,
    "decoder": _OF_HALVES,
    "cross": ATTENTION_TAPS,
}
SEQ2SEQ_TAPS = tuple(
    f"{part}_{kind}" for part, kinds in _OF_PARTS.items() for kind in kinds
)

CLS_INDEX = 0  # [CLS], or what a tokenizer has in its place, stands first.
# The feature of a batch that stands for running the teachers: a tuple of a dict
# of tensors by `Entry.name` for each of them.
TEACHER_OUTPUTS = "teacher_outputs"


def split_tap(tap: str) -> tuple[str, str]:
    """Returns the part of a model that a tap is of, and its kind.

    The part is `"encoder"`, `"decoder"` or `"cross"` of an encoder-decoder,
    and empty of other models. The kind is one of `TAPS`.

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
    """Returns whether a tap has tokens of an encoder-decoder's source.

    >>> reads_source("cross_attention_probs"), reads_source("hidden_states")
    (True, False)
    """
    return split_tap(tap)[0] in ("encoder", "cross")


def name_tap(part: str, kind: str) -> str:
    """Returns the name of a kind of tap of a part, `split_tap` turned round."""
    return f"{part}_{kind}" if part else kind


def taps_beside(tap: str, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the taps of some kinds that are of the same part as a tap.

    >>> taps_beside("cross_attention_probs", ("attention_logits", "queries"))
    ('cross_attention_logits',)
    """
    part, _ = split_tap(tap)
    names = (name_tap(part, kind) for kind in kinds)
    return tuple(name for name in names if name in TAPS + SEQ2SEQ_TAPS)
