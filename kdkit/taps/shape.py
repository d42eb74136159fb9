"""The sizes of a model that decide which taps it has."""

import dataclasses

import keras
import keras_hub

from kdkit.errors import UsageError, unknown
from kdkit.models.embedders import embedding_width, is_embedder
from kdkit.models.families import (
    ALL_FAMILIES,
    adapters_of,
    family_of,
    find_backbone,
)
from kdkit.taps import private
from kdkit.taps.layers import has_graph, output_specs
from kdkit.taps.names import (
    ATTENTION_TAPS,
    PER_LAYER_TAPS,
    SENTENCE_EMBEDDING,
    SEQ2SEQ_TAPS,
    VECTOR_TAPS,
    is_layer_tap,
    name_tap,
    split_tap,
    tap_name,
)


@dataclasses.dataclass(frozen=True)
class ModelShape:
    """The sizes of a model that objectives depend on.

    Args:
        num_classes: int or `None`. Width of the logits; `None` for a backbone
            without a head.
        num_layers: int or `None`. Number of transformer blocks in an encoder or
            a decoder; each call of a shared block counts. `None` if the
            model's blocks cannot be tapped; then the other sizes are `None`
            too.
        hidden_dim: int or `None`. Width of the hidden states.
        num_heads: int or `None`. Attention heads per block.
        has_pooled_output: bool. Whether `"pooled_output"` can be tapped.
        family: string or `None`. The name of the backbone's
            `kdkit.models.Family`, if kdkit knows it. Models of equal sizes and
            different families compare equal.
        encoder_num_layers: int or `None`. Number of transformer blocks in the
            encoder of an encoder-decoder; `None` for other models.
        decoder_num_layers: int or `None`. The same for its decoder.
        layers: dict of the widths of layer taps, the last axes of their
            tensors, by the taps' names. Only taps that `describe` was asked
            for. Defaults to none.
        embedding_width: int or `None`. The dimensions of an embedder's
            vectors; `None` for other models. An embedder has no classes.
    """

    num_classes: int | None
    num_layers: int | None = None
    hidden_dim: int | None = None
    num_heads: int | None = None
    has_pooled_output: bool = False
    family: str | None = dataclasses.field(default=None, compare=False)
    encoder_num_layers: int | None = None
    decoder_num_layers: int | None = None
    layers: dict[str, int] = dataclasses.field(default_factory=dict)
    embedding_width: int | None = None

    @property
    def taps(self) -> tuple[str, ...]:
        """The taps that a model of this shape has."""
        names = [] if self.num_classes is None else ["logits"]
        if self.embedding_width is not None:
            names.append(SENTENCE_EMBEDDING)
        if self.num_layers is not None:
            names.append("embedding_output")
            if self.has_pooled_output:
                names.append("pooled_output")
            family = ALL_FAMILIES.get(self.family)
            withheld = family.withheld_taps if family else ()
            names += [tap for tap in PER_LAYER_TAPS if tap not in withheld]
        if self.decoder_num_layers is not None:
            names += SEQ2SEQ_TAPS
        return (*names, *self.layers)

    def width(self, tap):
        """Returns the size that a tap has in two models which it compares.

        The last axis of logits, states and layers; the number of heads, and
        for vectors of heads also the width of all.
        """
        _, kind = split_tap(tap)
        if is_layer_tap(tap):
            return self.layers[tap_name(tap)]
        if kind in ATTENTION_TAPS:
            return self.num_heads
        if kind in VECTOR_TAPS:
            return self.num_heads, self.hidden_dim
        if kind == SENTENCE_EMBEDDING:
            return self.embedding_width
        return self.num_classes if kind == "logits" else self.hidden_dim

    def depth(self, tap: str) -> int | None:
        """Returns the number of blocks in the part that a tap belongs to."""
        part, _ = split_tap(tap)
        half = "decoder" if part == "cross" else part
        return getattr(self, name_tap(half, "num_layers"))


def describe(model, taps=("logits",)) -> ModelShape:
    """Returns the `ModelShape` of a model.

    Args:
        model: `keras.Model`. A keras-hub backbone, a task model around one,
            or any model, functional or built, whose only output is the logits,
            alone or in a dict or list.
        taps: iterable of taps. Those that are a layer's output, as
            `"layer:block_3"`, or a function of such outputs, are in
            `ModelShape.layers`. Without `"logits"`, a model whose output is
            not logits has a shape without classes. Defaults to `("logits",)`.

    Raises:
        UsageError: if the model's graph shows that its output is not logits,
            for example after a softmax; if a layer of `taps` is not there.
    """
    taps = tuple(taps)
    output, layers = output_specs(model, taps)
    backbone = find_backbone(model)
    num_classes = width = None
    if is_embedder(model):
        width = embedding_width(model)
    elif model is not backbone:
        try:
            num_classes = _num_classes(model, output)
        except ValueError:  # several outputs, or one that is not logits
            if "logits" in taps:
                raise
    return ModelShape(
        num_classes=num_classes,
        layers={name: tensor.shape[-1] for name, tensor in layers.items()},
        embedding_width=width,
        **_block_sizes(backbone),
    )


def _block_sizes(backbone):
    """Returns the sizes of a backbone whose blocks can be tapped."""
    stacks = {} if backbone is None else adapters_of(backbone)
    if not stacks:
        return {}
    family, output = family_of(backbone), backbone.output
    first_block = next(iter(stacks.values()))[0]
    return {
        "hidden_dim": backbone.hidden_dim,
        "num_heads": first_block.num_heads,
        "has_pooled_output": isinstance(output, dict)
        and "pooled_output" in output,
        "family": family and family.name,
        **{
            name_tap(part, "num_layers"): len(blocks)
            for part, blocks in stacks.items()
        },
    }


def require_taps(taps, shape):
    """Raises a `UsageError` for a tap that a model of a shape does not have."""
    for tap in map(tap_name, taps):
        if tap not in shape.taps:
            raise unknown("tap", tap, shape.taps)


def _num_classes(model, output):
    """Returns the width of the model's only output, which must be logits."""
    (logits,) = keras.tree.flatten(output)
    for layer in _last_layers(model):
        activation = getattr(layer, "activation", None)
        kind = type(layer).__name__
        if kind in ("Softmax", "Sigmoid") or activation not in LOGITS:
            name = getattr(activation, "__name__", kind)
            raise UsageError(
                f"The output of model {model.name!r} is not logits: layer "
                f"{layer.name!r} ends it with {name}. Expected a linear last "
                "layer."
            )
    return logits.shape[-1]


# Layers whose activation decides whether they return logits.
LINEAR = (
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras_hub.layers.MaskedLMHead,
    keras_hub.layers.ReversibleEmbedding,
)
# Activations whose results are logits.
LOGITS = (None, keras.activations.linear, keras.activations.log_softmax)


def shows_logits(model) -> bool:
    """Whether a model's graph ends in layers that return logits."""
    return has_graph(model) and all(
        isinstance(layer, LINEAR)
        and getattr(layer, "activation", None) in LOGITS
        for layer in _last_layers(model)
    )


def _last_layers(model):
    """Returns the layers and operations that make the outputs of a graph."""
    outputs = model.outputs if has_graph(model) else ()
    return [layer for output in outputs for layer in _makers(output)]


def _makers(tensor):
    """Enters nested models, and the layers whose outputs are joined."""
    layer, number, inputs = private.made_by(tensor)
    if isinstance(layer, keras.Model) and has_graph(layer):
        return _makers(layer.outputs[number])
    if type(layer).__name__ == "Concatenate":  # the layer or the operation
        return [maker for one in inputs for maker in _makers(one)]
    return [layer]
