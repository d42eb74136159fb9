"""Taps: named tensors read from a model in one forward pass.

This is the only module that touches private names of Keras and keras-hub:
`TransformerEncoder._self_attention_layer` and `._self_attention_layer_norm`,
and `KerasTensor._keras_history`. tests/test_taps.py pins what is assumed of
them.
"""

import dataclasses

import keras
import keras_hub
from keras import ops

from kdkit.errors import UsageError

OUTPUT_TAPS = ("logits", "embedding_output", "pooled_output")
STATE_TAPS = ("hidden_states", "cls_states")
ATTENTION_TAPS = ("attention_logits", "attention_probs")
VECTOR_TAPS = ("queries", "keys", "values")
PER_LAYER_TAPS = STATE_TAPS + ATTENTION_TAPS + VECTOR_TAPS
TAPS = OUTPUT_TAPS + PER_LAYER_TAPS

CLS_INDEX = 0  # [CLS], or what a tokenizer has in its place, stands first.


@dataclasses.dataclass(frozen=True)
class ModelShape:
    """The sizes of a model that objectives depend on.

    Args:
        num_classes: int or `None`. Width of the logits; `None` for a backbone
            without a head.
        num_layers: int or `None`. Number of transformer blocks; `None` where
            the model's blocks cannot be tapped. So for the other sizes.
        hidden_dim: int or `None`. Width of the hidden states.
        num_heads: int or `None`. Attention heads per block.
        has_pooled_output: bool. Whether `"pooled_output"` can be tapped.
    """

    num_classes: int | None
    num_layers: int | None = None
    hidden_dim: int | None = None
    num_heads: int | None = None
    has_pooled_output: bool = False

    @property
    def taps(self) -> tuple[str, ...]:
        """The taps that a model of this shape has."""
        names = [] if self.num_classes is None else ["logits"]
        if self.num_layers is not None:
            names.append("embedding_output")
            if self.has_pooled_output:
                names.append("pooled_output")
            names.extend(PER_LAYER_TAPS)
        return tuple(names)


def describe(model) -> ModelShape:
    """Returns the `ModelShape` of a model.

    Args:
        model: `keras.Model`. A keras-hub backbone, a task model around one,
            or any functional model whose only output is the logits.

    Raises:
        UsageError: if the model's output cannot be logits.
    """
    if not isinstance(model, keras.Model):
        raise UsageError(
            "Only Keras models can be tapped. Expected a keras.Model. "
            f"Received: {model!r}."
        )
    backbone = find_backbone(model)
    num_classes = None if model is backbone else _num_classes(model)
    if backbone is None or not _has_encoder_blocks(backbone):
        return ModelShape(num_classes=num_classes)
    return ModelShape(
        num_classes=num_classes,
        num_layers=len(backbone.transformer_layers),
        hidden_dim=backbone.hidden_dim,
        num_heads=backbone.transformer_layers[0].num_heads,
        has_pooled_output=_outputs(backbone).get("pooled_output") is not None,
    )


def tapped(model, taps):
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
    (batch_size, sequence_length, num_heads, head_dim).

    Args:
        model: `keras.Model`. A keras-hub backbone, a task model around one,
            or, for `"logits"` alone, any functional model whose only output
            they are. Inputs are told apart by name: pass them as a dict.
        taps: iterable of strings. What the callable returns.

    Returns:
        A callable, which returns a dict by tap name.

    Raises:
        UsageError: (a `ValueError`) if a tap is unknown or the model does not
            have it.

    Example:

    ```python
    run = kdkit.taps.tapped(classifier, ["logits", "hidden_states"])
    outputs = run(batch, training=False)
    last_hidden_state = outputs["hidden_states"][-1]
    ```
    """
    return TappedModel(model, taps)


class TappedModel:
    """What `tapped` returns."""

    def __init__(self, model, taps):
        self.taps = tuple(dict.fromkeys(taps))
        self.shape = describe(model)
        check_taps(self.taps, self.shape, type(model).__name__)
        self._model = model
        self._backbone = None
        if set(self.taps) != {"logits"}:
            self._backbone = find_backbone(model)
            _check_mask_input(model, self._backbone)
            self._model = _with_hidden_states(model, self._backbone)
            self._softmax = keras.layers.Softmax(
                dtype=self._backbone.dtype_policy
            )

    def __call__(self, x, training=False):
        outputs = self._model(select_inputs(self._model, x), training=training)
        if self._backbone is None:
            return {"logits": outputs}
        states = outputs["hidden_states"]
        per_block = {}
        if set(self.taps) & set(ATTENTION_TAPS + VECTOR_TAPS):
            mask = padding_mask(x)
            if mask is not None:
                mask = ops.cast(mask, "bool")[:, None, None, :]
            per_block = self._attention(states, mask)
        read = {
            "logits": lambda: outputs["logits"],
            "pooled_output": lambda: outputs["pooled_output"],
            "embedding_output": lambda: states[0],
            "hidden_states": lambda: list(states),
            "cls_states": lambda: [state[:, CLS_INDEX] for state in states],
        }
        return {
            tap: per_block[tap] if tap in per_block else read[tap]()
            for tap in self.taps
        }

    def _attention(self, states, mask):
        """Projects the blocks' inputs to queries, keys, values and scores."""
        wanted = set(self.taps)
        found = {tap: [] for tap in ATTENTION_TAPS + VECTOR_TAPS}
        for block, state in zip(
            self._backbone.transformer_layers, states[:-1], strict=True
        ):
            attention = block._self_attention_layer
            if block.normalize_first:
                state = block._self_attention_layer_norm(state)
            queries = attention.query_dense(state)
            keys = attention.key_dense(state)
            found["queries"].append(queries)
            found["keys"].append(keys)
            if "values" in wanted:
                found["values"].append(attention.value_dense(state))
            if wanted & set(ATTENTION_TAPS):
                scale = ops.cast(attention.key_dim**-0.5, queries.dtype)
                logits = ops.einsum("bqhd,bkhd->bhqk", queries * scale, keys)
                found["attention_logits"].append(logits)
                if "attention_probs" in wanted:
                    found["attention_probs"].append(
                        self._softmax(logits, mask=mask)
                    )
        return found


def check_taps(taps, shape, model_name):
    """Raises a `UsageError` that names every tap that cannot be read."""
    unknown = [tap for tap in taps if tap not in TAPS]
    if unknown:
        raise UsageError(
            f"Unknown tap. Expected one of {TAPS}. Received: "
            f"{', '.join(map(repr, unknown))}."
        )
    absent = [tap for tap in taps if tap not in shape.taps]
    if absent:
        raise UsageError(
            f"Tap {', '.join(map(repr, absent))} is not available for "
            f"{model_name}. Available taps: {shape.taps}. Hidden states and "
            "attention need a keras-hub backbone with one TransformerEncoder "
            "per block, such as BertBackbone; logits need a head."
        )


def padding_mask(x):
    """Returns the padding mask in the inputs `x`, or `None`."""
    return x.get("padding_mask") if isinstance(x, dict) else None


def select_inputs(model, x):
    """Leaves out of a dict what the model has no input for.

    A teacher with segments and a student without can share one batch.
    """
    if not isinstance(x, dict) or not isinstance(model, keras.Model):
        return x
    try:
        names = model.input
    except (AttributeError, ValueError):  # not a functional model
        return x
    if not isinstance(names, dict):
        return x
    missing = sorted(set(names) - set(x))
    if missing:
        raise UsageError(
            f"Inputs of model {model.name!r} are missing. Expected "
            f"{sorted(names)}. Received: {sorted(x)}. Add {missing} to the "
            "data set's features."
        )
    return {name: x[name] for name in names}


def find_backbone(model):
    """Returns the keras-hub backbone in a model, or `None`."""
    if isinstance(model, keras_hub.models.Backbone):
        return model
    if isinstance(model, keras_hub.models.Task):
        return model.backbone
    found = [
        layer
        for layer in getattr(model, "layers", ())
        if isinstance(layer, keras_hub.models.Backbone)
    ]
    return found[0] if len(found) == 1 else None


def _has_encoder_blocks(backbone):
    """Whether there is one encoder layer object per block (not ALBERT)."""
    blocks = getattr(backbone, "transformer_layers", None)
    return bool(blocks) and all(
        isinstance(block, keras_hub.layers.TransformerEncoder)
        for block in blocks
    )


def _num_classes(model):
    """The width of the model's single output, which must be logits."""
    try:
        outputs, shape = model.outputs, model.output_shape
    except (AttributeError, ValueError) as error:
        raise UsageError(
            f"The width of the logits of model {model.name!r} is unknown. "
            "Expected a functional model, or a built sequential one. Wrap it "
            "in one: keras.Model(inputs, model(inputs))."
        ) from error
    if len(outputs) != 1 or isinstance(shape, dict | list):
        raise UsageError(
            f"Model {model.name!r} has several outputs. Expected one, the "
            f"logits. Received: {shape}. Wrap it in a model that returns the "
            "logits alone."
        )
    output = outputs[0]
    producer = output._keras_history.operation
    activation = getattr(producer, "activation", None)
    if isinstance(producer, keras.layers.Softmax):
        activation = keras.activations.softmax
    if activation not in (None, keras.activations.linear):
        raise UsageError(
            f"The last layer of model {model.name!r} applies "
            f"{keras.activations.serialize(activation)!r}, so its output is "
            "not logits. Expected a linear last layer. Build the model with "
            "activation=None and compile it with from_logits=True."
        )
    return output.shape[-1]


def _outputs(backbone):
    """A backbone's outputs by name, also where there is just one."""
    if isinstance(backbone.output, dict):
        return backbone.output
    return {"sequence_output": backbone.output}


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


def _with_hidden_states(model, backbone):
    """A functional model on the same layers that returns hidden states too."""
    blocks = backbone.transformer_layers
    embedding_output = keras.tree.flatten(blocks[0].input)[0]
    states = [embedding_output, *[block.output for block in blocks]]
    encoder = keras.Model(
        backbone.input,
        {"backbone": backbone.output, "hidden_states": states},
    )
    if model is backbone:
        return keras.Model(
            backbone.input, {**_outputs(backbone), "hidden_states": states}
        )
    taken = []

    def call_function(layer, *args, **kwargs):
        if layer is not backbone:
            return layer(*args, **kwargs)
        outputs = encoder(*args, **kwargs)
        taken.append({"hidden_states": outputs["hidden_states"]})
        if isinstance(outputs["backbone"], dict):
            pooled_output = outputs["backbone"].get("pooled_output")
            if pooled_output is not None:
                taken[-1]["pooled_output"] = pooled_output
        return outputs["backbone"]

    # A clone compiles itself as its original is, with a second set of
    # optimizer slots. The twin shares the graph and is not compiled.
    twin = keras.Model(model.input, model.output)
    clone = keras.models.clone_model(
        twin,
        clone_function=lambda layer: layer,
        call_function=call_function,
    )
    if len(taken) != 1:
        raise UsageError(
            f"Model {model.name!r} runs its backbone {len(taken)} times, so "
            "its hidden states are not one list. Expected one call. Tap the "
            "backbone itself."
        )
    return keras.Model(clone.input, {"logits": clone.output, **taken[0]})
