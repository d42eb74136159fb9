"""Runs a model once and returns its taps, tensors of the layers' own calls."""

from typing import Any, NamedTuple

import keras
from keras import ops

from kdkit.errors import UsageError
from kdkit.models.families import (
    DECODERS,
    adapters_of,
    family_of,
    find_backbone,
)
from kdkit.taps.inputs import select_inputs
from kdkit.taps.layers import LayerTaps, require_one_run
from kdkit.taps.names import (
    ATTENTION_TAPS,
    CLS_INDEX,
    SENTENCE_EMBEDDING,
    STATE_TAPS,
    VECTOR_TAPS,
    split_tap,
    tap_name,
)
from kdkit.taps.recording import Method, recorded
from kdkit.taps.shape import describe, require_taps


def tapped(model, taps, factor_logits=False):
    """Returns a callable that runs `model` once and returns its taps.

    The callable runs the model's own layers with the model's own weights and
    does not change the model. Call it like the model,
    `tapped_model(x, training=False)`, inside or outside of a `tf.function`.

    Taps of the whole model: `"logits"`, `"embedding_output"` (the input of the
    first block), `"pooled_output"`; for an embedder (see
    `kdkit.models.make_embedder`) instead of logits its output,
    `"sentence_embedding"`, (batch_size, dimensions).

    Taps per layer are lists. Lists of N + 1 tensors, where 0 is the embedding
    output: `"hidden_states"`, (batch_size, sequence_length, hidden_dim), and
    `"cls_states"`, (batch_size, hidden_dim). Lists of N tensors, one per block:
    `"attention_logits"` (QKᵀ/√d before mask and softmax) and
    `"attention_probs"` (after both, before dropout), (batch_size, num_heads,
    query_length, key_length); `"queries"`, `"keys"` and `"values"`,
    (batch_size, sequence_length, num_heads, head_dim). If blocks share their
    weights, as in ALBERT, each call counts as a block.

    Taps of an encoder-decoder: `"logits"`; with the prefix `encoder_` or
    `decoder_`, such as `"encoder_hidden_states"`: `"embedding_output"`,
    `"hidden_states"`, `"attention_logits"`, `"attention_probs"`, `"queries"`,
    `"keys"` and `"values"` of that half; `"cross_attention_logits"` and
    `"cross_attention_probs"`, the attention of each decoder block to the
    encoder's output, (batch_size, num_heads, decoder_length, encoder_length).

    Taps of any Keras model, functional or subclassed: `"logits"`;
    `"layer:NAME"`, the output of the layer of this name, at any depth
    (`"layer:encoder/dense"` where several have it); and functions that get the
    outputs of all layers by name and return a tensor, such as `lambda outputs:
    outputs["gru"][0]`. A function `f` is in the result as `"function:f"`.

    Args:
        model: `keras.Model`. A keras-hub backbone or a task model around one.
            For the taps of any model also other models; `"logits"` must be the
            only output, which may be in a dict. Inputs are identified by
            name: pass them as a dict.
        taps: iterable of strings and functions. The taps that the callable
            returns.
        factor_logits: bool. Whether `"logits"` is `kdkit.taps.FactoredLogits`
            instead of a tensor as wide as the vocabulary. Needs a
            `keras_hub.models.CausalLM`. Defaults to `False`.

    Returns:
        A callable that returns a dict by tap name.

    Raises:
        UsageError: (a `ValueError`) if a tap is unknown or the model does not
            have it. DeBERTa-v3 has no taps of attention, RoBERTa has no
            pooled output.

    Example:

    ```python
    run = kdkit.taps.tapped(classifier, ["logits", "hidden_states"])
    outputs = run(batch, training=False)
    last_hidden_state = outputs["hidden_states"][-1]
    ```
    """
    return TappedModel(model, taps, factor_logits)


class TappedModel:
    """The callable that `tapped` returns."""

    def __init__(self, model, taps, factor_logits=False):
        taps = tuple(taps)
        self.taps = tuple(dict.fromkeys(map(tap_name, taps)))
        require_taps(self.taps, describe(model, taps))
        self._layers = LayerTaps(model, taps)
        backbone = find_backbone(model)
        # Factored logits need the model without its head.
        self._model = backbone if factor_logits else model
        self._factored = _decoder_family(model) if factor_logits else None
        self._backbone = backbone
        self._parts = {} if backbone is None else adapters_of(backbone)
        if "decoder" in self._parts:
            self._parts["cross"] = tuple(
                adapter.cross_attention for adapter in self._parts["decoder"]
            )
        self._methods = {tap: self._methods_of(tap) for tap in self.taps}
        own = [method for one in self._methods.values() for method in one]
        self._reads_backbone = bool(own)
        if own:
            self._softmax = keras.layers.Softmax(dtype=backbone.dtype_policy)
        self._all_methods = [*own, *self._layers.methods]
        require_one_run(model, self._all_methods)

    def __call__(self, x, training=False):
        return self.run(x, training)[1]

    def run(self, x, training=False) -> tuple:
        """Returns the model's output, and its taps."""
        if self._reads_backbone:
            _require_masks(self._backbone, x)
        inputs = select_inputs(self._model, x)
        with recorded(self._all_methods) as calls:
            output = self._model(inputs, training=training)
        taps = self._layers.read(calls)
        for tap in self.taps:
            if tap not in taps:
                taps[tap] = self._read(tap, output, calls)
        return output, taps

    def _methods_of(self, tap):
        """Returns the methods whose calls contain a tap, in their order."""
        part, kind = split_tap(tap)
        adapters = self._parts.get(part, ())
        if kind == "pooled_output":
            return [Method(self._backbone, "call")]
        if kind in ATTENTION_TAPS + VECTOR_TAPS:
            return [
                Method(adapter.attention, adapter.attention_method)
                for adapter in adapters
            ]
        if kind in ("embedding_output", *STATE_TAPS):
            return [Method(adapter.block, "call") for adapter in adapters]
        return []

    def _read(self, tap, output, calls):
        part, kind = split_tap(tap)
        calls = _in_order(calls, self._methods[tap])
        if kind in ("logits", SENTENCE_EMBEDDING):
            return self._logits(output)
        if kind == "pooled_output":
            return calls[0].output[kind]
        if kind in ATTENTION_TAPS + VECTOR_TAPS:
            return [
                self._attention(kind, adapter, call)
                for adapter, call in zip(self._parts[part], calls, strict=True)
            ]
        embedded, *_ = (*calls[0].args, *calls[0].kwargs.values())
        states = [embedded, *(call.output for call in calls)]
        if kind == "cls_states":
            return [state[:, CLS_INDEX] for state in states]
        return embedded if kind == "embedding_output" else states

    def _attention(self, kind, adapter, call):
        """Returns a tap of one block's attention."""
        read = adapter.read(*call.args, **call.kwargs)
        if kind in VECTOR_TAPS:
            return read[VECTOR_TAPS.index(kind)]
        logits = adapter.scores(read.queries, read.keys)
        if kind == "attention_logits":
            return logits
        return self._softmax(logits, mask=read.mask)

    def _logits(self, output):
        """Returns the model's only output, or its factors."""
        (output,) = keras.tree.flatten(output)
        if self._factored is None:
            return output
        embeddings = self._factored.output_embeddings(self._backbone)
        return FactoredLogits(output, ops.cast(embeddings, output.dtype))


def _decoder_family(model):
    """Returns the family of a decoder with its own head."""
    known = tuple(family.causal_lm for family in DECODERS.values())
    if not isinstance(model, known):
        raise UsageError(
            "Only a decoder's logits can be computed in chunks, received "
            f"{type(model).__name__}."
        )
    return family_of(model.backbone)


def _in_order(calls, methods):
    """Returns the calls of methods that run once each, in this order."""
    calls = [call for call in calls if call.method in methods]
    found = [call.method for call in calls]
    if found != methods:
        raise UsageError(
            "The model runs the layers "
            f"{[method.layer.name for method in found]}. Expected "
            f"{[method.layer.name for method in methods]}, in this order."
        )
    return calls


def _require_masks(backbone, x):
    """Raises a `UsageError` if inputs lack a padding mask of the backbone."""
    given = x if isinstance(x, dict) else {}
    for name in backbone.input:
        if name.endswith("padding_mask") and name not in given:
            raise UsageError(
                f"The inputs lack {name!r}, so taps would count padding. "
                "Expected a dict with this name, which is also an input of the "
                "model."
            )


class FactoredLogits(NamedTuple):
    """A decoder's logits as two factors: states times embeddings.

    The logits of all positions are the largest tensor in a language model's
    training step: each is as wide as the vocabulary. Code that needs only a
    few positions at a time takes the factors instead.

    Attributes:
        states: tensor of shape `(batch_size, sequence_length, hidden_dim)`.
            The decoder's output for each position.
        embeddings: tensor of shape `(vocabulary_size, hidden_dim)`, with the
            same dtype.
    """

    states: Any
    embeddings: Any
