"""Running a model once and returning its taps."""

import keras
from keras import ops

from kdkit.errors import UsageError
from kdkit.families import blocks_of
from kdkit.families import find_backbone
from kdkit.taps.attention import AttentionReader
from kdkit.taps.inputs import padding_mask
from kdkit.taps.inputs import select_inputs
from kdkit.taps.names import CLS_INDEX
from kdkit.taps.shape import check_taps
from kdkit.taps.shape import describe
from kdkit.taps.shape import named_outputs
from kdkit.taps.vocabulary import FactoredLogits
from kdkit.taps.vocabulary import output_embeddings


def tapped(model, taps, factor_logits=False):
    """Returns a callable that runs `model` once and returns its taps.

    The callable runs the model's own layers with the model's own weights and
    leaves the model as it is. It is called like the model, as
    `tapped_model(x, training=False)`, inside or outside of a `tf.function`.

    Taps of the whole model: `"logits"`, `"embedding_output"` (what enters the
    first block), `"pooled_output"`.

    Taps per layer, as lists. Of N + 1 tensors, 0 being the embedding output:
    `"hidden_states"`, (batch_size, sequence_length, hidden_dim), and
    `"cls_states"`, (batch_size, hidden_dim). Of N tensors, one per block:
    `"attention_logits"` (QKᵀ/√d before mask and softmax) and
    `"attention_probs"` (after both, before dropout), (batch_size, num_heads,
    query_length, key_length); `"queries"`, `"keys"` and `"values"`,
    (batch_size, sequence_length, num_heads, head_dim). Where blocks share
    their weights, as in ALBERT, each call is a block of its own.

    Args:
        model: `keras.Model`. A keras-hub backbone, a task model around one,
            or, for `"logits"` alone, any functional model whose only output
            they are. Inputs are told apart by name: pass them as a dict.
        taps: iterable of strings. What the callable returns.
        factor_logits: bool. Whether `"logits"` is `kdkit.taps.FactoredLogits`
            in place of a tensor as wide as the vocabulary, which a
            `keras_hub.models.CausalLM` allows. Defaults to `False`.

    Returns:
        A callable, which returns a dict by tap name.

    Raises:
        UsageError: (a `ValueError`) if a tap is unknown or the model does not
            have it, as DeBERTa-v3 has none of the attention and RoBERTa no
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
    """What `tapped` returns."""

    def __init__(self, model, taps, factor_logits=False):
        self.taps = tuple(dict.fromkeys(taps))
        self.shape = describe(model)
        check_taps(self.taps, self.shape, type(model).__name__)
        self._model = model
        self._read_attention = None
        self._embeddings = output_embeddings(model) if factor_logits else None
        if factor_logits or set(self.taps) != {"logits"}:
            backbone = find_backbone(model)
            _check_mask_input(model, backbone)
            # Without its head where the logits are to be factors.
            self._model = _with_states(
                backbone if factor_logits else model, backbone
            )
            self._read_attention = AttentionReader(
                blocks_of(backbone), self.taps, backbone.dtype_policy
            )

    def __call__(self, x, training=False):
        outputs = self._model(select_inputs(self._model, x), training=training)
        if self._read_attention is None:
            return {"logits": outputs}
        states = outputs["hidden_states"]
        logits = outputs.get("logits")
        if self._embeddings is not None:
            last = outputs["sequence_output"]
            logits = FactoredLogits(
                last, ops.cast(self._embeddings, last.dtype)
            )
        read = {
            "logits": logits,
            "pooled_output": outputs.get("pooled_output"),
            "embedding_output": states[0],
            "hidden_states": list(states),
        }
        if "cls_states" in self.taps:
            read["cls_states"] = [state[:, CLS_INDEX] for state in states]
        read |= self._read_attention(outputs["block_inputs"], padding_mask(x))
        return {tap: read[tap] for tap in self.taps}


def _check_mask_input(model, backbone):
    """Raises a `UsageError` if the padding mask would go unseen."""
    needed = backbone.input
    received = model.input
    if not isinstance(needed, dict) or "padding_mask" not in needed:
        return
    if not isinstance(received, dict) or "padding_mask" not in received:
        raise UsageError(
            f"Model {model.name!r} must take its inputs as a dict with a key "
            "'padding_mask', or its taps would count padding. Received: "
            f"{keras.tree.map_structure(lambda tensor: tensor.name, received)}."
            " Build it as keras.Model({'token_ids': ..., 'padding_mask': ...}, "
            "logits)."
        )


def _with_states(model, backbone):
    """A functional model on the same layers that returns the states too."""
    inputs, outputs, states = _encoder_graph(backbone)
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
    return keras.Model(clone.input, {"logits": clone.output, **taken[0]})


def _encoder_graph(backbone):
    """A backbone's graph once more: its inputs, named outputs and states.

    The states are what its blocks take and give. They are noted call by call,
    since the `output` of a layer that is called several times, as ALBERT's
    are, is that of its first call alone.
    """
    blocks = blocks_of(backbone)
    calls = []

    def call_function(layer, *args, **kwargs):
        output = layer(*args, **kwargs)
        if any(layer is block for block in blocks):
            state = args[0] if args else kwargs["inputs"]
            calls.append((layer, state, output))
        return output

    clone = _rewired(backbone, call_function)
    called = [layer for layer, _, _ in calls]
    if [*map(id, called)] != [*map(id, blocks)]:
        raise UsageError(
            f"{type(backbone).__name__} does not run its blocks as it lists "
            f"them. Expected: {[block.name for block in blocks]}. Received: "
            f"{[layer.name for layer in called]}. List each block in "
            "`transformer_layers` in the order of the calls."
        )
    block_inputs = [state for _, state, _ in calls]
    block_outputs = [output for _, _, output in calls]
    states = {
        "hidden_states": [block_inputs[0], *block_outputs],
        "block_inputs": block_inputs,
    }
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
