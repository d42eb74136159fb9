"""Rebuilds a model's graph to return the inputs and outputs of its blocks."""

import inspect
import itertools
from typing import Any
from typing import NamedTuple

import keras

from kdkit.errors import UsageError
from kdkit.models.families import DecoderBlock
from kdkit.taps.masks import key_mask
from kdkit.taps.names import name_tap
from kdkit.taps.shape import named_outputs


class _Call(NamedTuple):
    """The symbolic inputs and outputs of one call of a block."""

    block: Any
    state: Any
    output: Any
    cross_input: Any
    source: Any


def with_states(model, backbone, stacks, reads_cross):
    """Returns a functional model on the same layers that also returns states.

    Args:
        model: `keras.Model` around the backbone, or the backbone itself.
        backbone: `keras_hub.models.Backbone`.
        stacks: dict, the result of `kdkit.models.families.stacks_of`.
        reads_cross: bool. Whether a decoder's blocks run part by part, so that
            the inputs of their cross-attention can be read.

    Returns:
        `keras.Model` that returns a dict. It has the backbone's outputs by
        name, or the output of the model around it as `"logits"`, and lists of
        tensors, `hidden_states` and `attention_inputs`, with the stack's name
        as prefix. With `reads_cross` it also has `cross_attention_inputs` and
        `cross_sources`.
    """
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
    if len(taken) != 1:
        raise UsageError(
            f"Model {model.name!r} runs its backbone {len(taken)} times, so "
            "its hidden states are ambiguous. Expected one call. Tap the "
            "backbone itself."
        )
    (logits,) = keras.tree.flatten(clone.output)
    return keras.Model(clone.input, {"logits": logits, **taken[0]})


def _backbone_graph(backbone, stacks, reads_cross):
    """Rebuilds a backbone's graph; returns inputs, named outputs and states.

    The states are recorded call by call. If a layer is called several times,
    as in ALBERT, its `output` is that of the first call only.
    """
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
            f"{type(backbone).__name__} does not run its blocks in the listed "
            f"order. Expected: {[block.name for block in blocks]}. Received: "
            f"{[block.name for block in called]}. List each block in "
            "`transformer_layers` in the order of the calls."
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
    """A decoder block that also returns the query input of cross-attention.

    That tensor is between the block's parts, after dropout, so it is neither
    an input nor an output of the block.

    Args:
        block: `keras_hub.layers.TransformerDecoder` with cross-attention. Its
            own layers run.

    Call arguments:
        decoder_sequence, encoder_sequence: tensors, as for the block.
        decoder_padding_mask, encoder_padding_mask: `None` or mask. Default to
            `None`.

    Returns of a call:
        Tuple of the block's output and the tensor, both of the shape of
        `decoder_sequence`.
    """

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
