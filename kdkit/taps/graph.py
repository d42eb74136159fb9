"""A model's graph once more, with what its blocks take and give."""

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
    """What a block took and gave, symbolically."""

    block: Any
    state: Any
    output: Any
    cross_input: Any
    source: Any


def with_states(model, backbone, stacks, reads_cross):
    """Returns a functional model on the same layers that returns states too.

    Args:
        model: `keras.Model` around the backbone, or the backbone itself.
        backbone: `keras_hub.models.Backbone`.
        stacks: dict, as `kdkit.models.families.stacks_of` returns it.
        reads_cross: bool. Whether blocks of a decoder are taken apart, to see
            what their cross-attention takes.

    Returns:
        `keras.Model` that returns a dict: the outputs of the backbone by name,
        or those of a model around it as `"logits"`; and lists of tensors, whose
        names begin with that of the stack, `hidden_states` and
        `attention_inputs`. With `reads_cross` there are also
        `cross_attention_inputs` and `cross_sources`.
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
            "its hidden states are not one list. Expected one call. Tap the "
            "backbone itself."
        )
    (logits,) = keras.tree.flatten(clone.output)
    return keras.Model(clone.input, {"logits": logits, **taken[0]})


def _backbone_graph(backbone, stacks, reads_cross):
    """A backbone's graph once more: its inputs, named outputs and states.

    The states are noted call by call, since the `output` of a layer that is
    called several times, as ALBERT's are, is that of its first call alone.
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
            f"{type(backbone).__name__} does not run its blocks as it lists "
            f"them. Expected: {[block.name for block in blocks]}. Received: "
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
    """The model's graph once more, with `call_function` calling its layers."""
    # A clone compiles itself as its original is, with a second set of
    # optimizer slots. The twin shares the graph and is not compiled.
    twin = keras.Model(model.input, model.output)
    return keras.models.clone_model(
        twin,
        clone_function=lambda layer: layer,
        call_function=call_function,
    )


class OpenBlock(keras.layers.Layer):
    """A decoder's block that also returns what cross-attention queries with.

    This tensor is between the block's parts, behind dropout, so it is neither
    an input nor an output of the block.

    Args:
        block: `keras_hub.layers.TransformerDecoder` with cross-attention, whose
            layers run.

    Call arguments:
        decoder_sequence, encoder_sequence: as the block takes them.
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
