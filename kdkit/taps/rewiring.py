"""Runs a model once and returns its taps.

The taps of attention repeat the projections of the forward pass; XLA merges
the two. The block adapters in `kdkit.models.families` compute the projections
for each family.
"""

import inspect
import itertools
from typing import Any, NamedTuple

import keras
from keras import ops

from kdkit.errors import UsageError
from kdkit.models.embedders import is_embedder
from kdkit.models.families import (
    DECODERS,
    DecoderBlock,
    adapters_of,
    family_of,
    find_backbone,
    stacks_of,
)
from kdkit.taps.layers import LayerTaps
from kdkit.taps.masks import key_mask, padding_masks, select_inputs
from kdkit.taps.names import (
    ATTENTION_TAPS,
    CLS_INDEX,
    SENTENCE_EMBEDDING,
    VECTOR_TAPS,
    is_layer_tap,
    name_tap,
    split_tap,
)
from kdkit.taps.shape import describe, named_outputs, require_taps


class _Call(NamedTuple):
    """The symbolic inputs and outputs of one call of a block."""

    block: Any
    state: Any
    output: Any
    cross_input: Any
    source: Any


def with_states(model, backbone, stacks, reads_cross):
    """A functional model on the same layers that also returns states."""
    inputs, outputs, states = _backbone_graph(backbone, stacks, reads_cross)
    if model is backbone:
        return keras.Model(inputs, {**outputs, **states})
    single = not isinstance(backbone.output, dict)
    encoder = keras.Model(inputs, {"outputs": outputs, "states": states})
    taken = []

    def call_function(layer, *args, **kwargs):
        if layer is not backbone:
            return layer(*args, **kwargs)
        found = encoder(*args, **kwargs)
        taken.append(found["states"])
        if "pooled_output" in found["outputs"]:
            taken[-1]["pooled_output"] = found["outputs"]["pooled_output"]
        if single:
            return found["outputs"]["sequence_output"]
        return found["outputs"]

    clone = _rewired(model, call_function)
    (states,) = taken  # of the only call
    (output,) = keras.tree.flatten(clone.output)
    name = SENTENCE_EMBEDDING if is_embedder(model) else "logits"
    return keras.Model(clone.input, {name: output, **states})


def _backbone_graph(backbone, stacks, reads_cross):
    """Rebuilds a backbone's graph; returns inputs, named outputs and states."""
    blocks = list(itertools.chain(*stacks.values()))
    calls = []

    def call_function(layer, *args, **kwargs):
        if not any(layer is block for block in blocks):
            return layer(*args, **kwargs)
        bound = inspect.signature(layer.call).bind(*args, **kwargs).arguments
        cross_input = None
        if reads_cross and "encoder_sequence" in bound:
            output, cross_input = OpenBlock(layer)(**bound)
        else:
            output = layer(*args, **kwargs)
        state, *_ = bound.values()
        source = bound.get("encoder_sequence")
        calls.append(_Call(layer, state, output, cross_input, source))
        return output

    clone = _rewired(backbone, call_function)
    called = [call.block for call in calls]
    if [*map(id, called)] != [*map(id, blocks)]:
        raise UsageError(
            f"{type(backbone).__name__} lists the blocks "
            f"{[block.name for block in blocks]}, but runs "
            f"{[block.name for block in called]}."
        )
    remaining = iter(calls)
    states = {}
    for part, stack in stacks.items():
        made = list(itertools.islice(remaining, len(stack)))
        inputs = [call.state for call in made]
        outputs = [call.output for call in made]
        states[name_tap(part, "hidden_states")] = [inputs[0], *outputs]
        states[name_tap(part, "attention_inputs")] = inputs
        if part == "decoder" and reads_cross:
            states["cross_attention_inputs"] = [
                call.cross_input for call in made
            ]
            states["cross_sources"] = [call.source for call in made]
    return clone.input, named_outputs(clone), states


def _rewired(model, call_function):
    """Rebuilds a model's graph; `call_function` calls its layers."""
    # `clone_model` also compiles the clone of a compiled model, which creates
    # a second set of optimizer slots. The twin shares the graph and is not
    # compiled.
    twin = keras.Model(model.input, model.output)
    return keras.models.clone_model(
        twin,
        clone_function=lambda layer: layer,
        call_function=call_function,
    )


class OpenBlock(keras.layers.Layer):
    """A decoder block that also returns the query input of cross-attention."""

    def __init__(self, block):
        super().__init__(dtype=block.dtype_policy, name=f"open_{block.name}")
        self.block = block
        self.built = True

    def call(
        self,
        decoder_sequence,
        encoder_sequence,
        decoder_padding_mask=None,
        encoder_padding_mask=None,
    ):
        adapter = DecoderBlock(self.block)
        read = []
        decoder_mask = adapter.attention_mask(
            decoder_sequence, decoder_padding_mask
        )
        encoder_mask = key_mask(encoder_padding_mask)

        def attend(state):
            return adapter.attention(
                query=state, value=state, attention_mask=decoder_mask
            )

        def attend_to_source(state):
            read.append(state)
            return adapter.cross_attention.attention(
                query=state, value=encoder_sequence, attention_mask=encoder_mask
            )

        output = adapter.run(decoder_sequence, attend, attend_to_source)
        return output, *read


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
        taps = tuple(dict.fromkeys(taps))
        self.taps = tuple(tap for tap in taps if not is_layer_tap(tap))
        self.shape = describe(model, taps, needs_logits="logits" in taps)
        require_taps(taps, self.shape)
        self._layers = LayerTaps(model, taps)
        self._model = model
        self._stacks = {}
        self._readers = {}
        self._embeddings = output_embeddings(model) if factor_logits else None
        if factor_logits or set(self.taps) - {"logits", SENTENCE_EMBEDDING}:
            backbone = find_backbone(model)
            _require_mask_input(model, backbone)
            self._stacks = stacks_of(backbone)
            parts = adapters_of(backbone)
            reads_cross = any(split_tap(tap)[0] == "cross" for tap in self.taps)
            if reads_cross:
                parts["cross"] = parts["decoder"]
            # Factored logits need the model without its head.
            self._model = with_states(
                backbone if factor_logits else model,
                backbone,
                self._stacks,
                reads_cross,
            )
            self._readers = {
                part: AttentionReader(
                    part, blocks, self.taps, backbone.dtype_policy
                )
                for part, blocks in parts.items()
            }

    def __call__(self, x, training=False):
        inputs = select_inputs(self._model, x)
        outputs, layers = self._layers.run(
            lambda: self._model(inputs, training=training)
        )
        return {**self._own_taps(outputs, x), **layers}

    def _own_taps(self, outputs, x):
        """Returns the taps other than those of layers, from a run's outputs."""
        if not self.taps:
            return {}
        if not self._stacks:
            (output,) = keras.tree.flatten(outputs)
            return dict.fromkeys(self.taps, output)  # an output has one name
        logits = outputs.get("logits")
        if self._embeddings is not None:
            last = outputs["sequence_output"]
            logits = FactoredLogits(
                last, ops.cast(self._embeddings, last.dtype)
            )
        read = {
            "logits": logits,
            "pooled_output": outputs.get("pooled_output"),
            SENTENCE_EMBEDDING: outputs.get(SENTENCE_EMBEDDING),
        }
        for part in self._stacks:
            states = list(outputs[name_tap(part, "hidden_states")])
            read[name_tap(part, "embedding_output")] = states[0]
            read[name_tap(part, "hidden_states")] = states
        if "cls_states" in self.taps:
            read["cls_states"] = [
                state[:, CLS_INDEX] for state in read["hidden_states"]
            ]
        for part, read_attention in self._readers.items():
            _, mask = padding_masks(x, part)
            read |= read_attention(
                outputs[name_tap(part, "attention_inputs")],
                outputs["cross_sources"] if part == "cross" else None,
                mask,
            )
        return {tap: read[tap] for tap in self.taps}


def _require_mask_input(model, backbone):
    """Raises a `UsageError` if the model has no input for the padding mask."""
    received = model.input
    if not isinstance(backbone.input, dict):
        return
    masks = {name for name in backbone.input if name.endswith("padding_mask")}
    if masks and not (isinstance(received, dict) and masks <= set(received)):
        raise UsageError(
            f"Model {model.name!r} has no input for the padding mask, so its "
            f"taps would count padding. Expected a dict with {sorted(masks)}."
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
            "Only a decoder's logits can be computed in chunks, received "
            f"{type(model).__name__}."
        )
    return family_of(model.backbone).output_embeddings(model.backbone)


class AttentionReader:
    """Reads the attention taps of one part of a model."""

    def __init__(self, part, blocks, taps, dtype):
        self._part = part
        self._blocks = blocks
        self._kinds = {
            kind
            for of_part, kind in map(split_tap, taps)
            if of_part == part and kind in ATTENTION_TAPS + VECTOR_TAPS
        }
        self._softmax = keras.layers.Softmax(dtype=dtype)

    def __call__(self, inputs, sources, padding_mask):
        """Returns a dict from tap to a list with one tensor per block."""
        if not self._kinds:
            return {}
        per_block = [
            self._read(block, state, source, padding_mask)
            for block, state, source in zip(
                self._blocks,
                inputs,
                sources or [None] * len(inputs),
                strict=True,
            )
        ]
        return {
            name_tap(self._part, kind): [read[kind] for read in per_block]
            for kind in self._kinds
        }

    def _read(self, block, state, source, padding_mask):
        attention = block if source is None else block.cross_attention
        state = attention.attention_input(state)
        source = state if source is None else source
        read = {
            "queries": attention.queries(state),
            "keys": attention.repeat_groups(attention.keys(source)),
        }
        if "values" in self._kinds:
            values = attention.values(source)
            read["values"] = attention.repeat_groups(values)
        if self._kinds & set(ATTENTION_TAPS):
            logits = attention.scores(read["queries"], read["keys"])
            read["attention_logits"] = logits
            if "attention_probs" in self._kinds:
                mask = attention.attention_mask(state, padding_mask)
                read["attention_probs"] = self._softmax(logits, mask=mask)
        return read
