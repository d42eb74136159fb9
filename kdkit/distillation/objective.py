"""The objective: which tensors a loss compares, and its weight."""

import dataclasses
import inspect
import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from kdkit import losses
from kdkit.distillation.weights import weighs_pairs
from kdkit.errors import UsageError, unknown
from kdkit.late import keras
from kdkit.losses.base import (
    STATE_TAPS,
    DistillationLoss,
    get_loss,
    registered_losses,
)
from kdkit.losses.foreign import KerasLoss, adapted
from kdkit.taps.names import (
    PER_LAYER_TAPS,
    SEQ2SEQ_TAPS,
    TAPS,
    is_layer_tap,
    split_tap,
)

PAIR_REDUCTIONS = ("sum", "mean")
SHARING = ("shared", "per_layer")
LAYERS = "layers"  # the kind of taps that read layers


@dataclasses.dataclass(frozen=True)
class Projection:
    """How an objective maps student states to the teacher's width.

    These are TinyBERT's matrices W_e and W_h. The layers are trained with the
    student and are not part of the saved student.

    Args:
        sharing: string. `"shared"` for one dense layer for all pairs of an
            objective, as in the authors' code; `"per_layer"` for one per pair.
        use_bias: bool. Whether the layers have a bias. The authors' code has
            one, the paper's equations do not. Defaults to `True`.

    Raises:
        UsageError: if `sharing` is unknown.
    """

    sharing: str
    use_bias: bool = True

    def __post_init__(self):
        if self.sharing not in SHARING:
            raise unknown("projection", self.sharing, SHARING)

    def build(self, name, student_dim, teacher_dim, layers, dtype=None):
        """Returns the built dense layers as a dict by student layer index.

        Args:
            name: string. Prefix of the layers' names.
            student_dim: int. Width of the student's states.
            teacher_dim: int. Width of the teacher's states.
            layers: iterable of ints. The student layer indices to project.
            dtype: dtype or policy of the layers. Defaults to Keras' default.
        """

        def dense(suffix):
            layer = keras.layers.Dense(
                teacher_dim,
                use_bias=self.use_bias,
                dtype=dtype,
                name=f"{name}_projection{suffix}",
            )
            layer.build((None, student_dim))
            return layer

        if self.sharing == "shared":
            shared = dense("")
            return {index: shared for index in layers}
        return {index: dense(f"_{index}") for index in layers}


def _loss(value):
    """The loss that a configuration describes."""
    if isinstance(value, dict) and "on_logits" in value:
        return KerasLoss.from_config(value)
    return get_loss(value) if isinstance(value, dict | str) else value


Projected = Annotated[
    Projection | None,
    BeforeValidator(
        lambda one: Projection(one) if isinstance(one, str) else one
    ),
]


class _Named:
    """The JSON schema of losses: their names, and the arguments of each."""

    def __get_pydantic_json_schema__(self, core_schema, handler):
        del core_schema, handler
        known, listed = registered_losses(), []
        for name, kind in known.items():
            arguments = dict.fromkeys(inspect.signature(kind).parameters, {})
            fields = arguments | {"name": {"const": name}}
            same = {"required": ["name"], "additionalProperties": False}
            listed.append({"type": "object", "properties": fields, **same})
        foreign = {"type": "object", "required": ["keras_loss"]}
        return {"anyOf": [{"enum": [*known]}, *listed, foreign]}


Loss = Annotated[
    Any,
    BeforeValidator(_loss),
    PlainSerializer(lambda one: one.to_setting()),
    _Named(),
]


@dataclasses.dataclass(frozen=True)
class Objective:
    """One term of the distillation loss: loss × tap × layer map × weight.

    Taps of the whole model are compared once. Taps per layer are compared pair
    by pair along the layer map, and the values are summed over the pairs or
    averaged (see `pair_reduction`).

    Args:
        loss: `kdkit.losses.DistillationLoss`. Compares the two tensors. Or a
            loss of `keras.losses`, of `keras.distillation`, or a function
            `f(teacher, student)` that returns one value per example (or per
            position): see `kdkit.losses.KerasLoss`.
        tap: string. The tensor to compare, one of `kdkit.taps.TAPS` or, for an
            encoder-decoder, `kdkit.taps.SEQ2SEQ_TAPS`. Attention in its decoder
            counts for each token and itself or an earlier token; attention of
            a GPT-2 counts between all real positions.
            Cross-attention counts where neither the decoder's token nor the
            encoder's token is padding. In any Keras model, `"layer:NAME"` is
            the output of the layer of that name, at any depth; a function
            `f(outputs)` computes the tensor from layers' outputs, as
            `outputs["gru"]`; and a pair `(teacher, student)` of these has one
            for each model. See `kdkit.taps.tapped`. Defaults to `"logits"`.
        layer_map: string or dict, for taps per layer; see `kdkit.layer_map`.
            `None` means `"uniform"` for these taps. Defaults to `None`.
        weight: float. Factor of this term in the total loss. The logs contain
            the value before the factor. Defaults to `1.0`.
        projection: `None`, `"shared"` (one dense layer with bias for all
            pairs), `"per_layer"`, or a `kdkit.distillation.Projection`. It
            maps the last axis, of a feature map its channels. Defaults to
            `None`.
        include_embeddings: bool. For `"hidden_states"`, whether the embedding
            outputs (layer 0 to layer 0) are compared too. Defaults to `True`.
        name: string. Name of the scalar in the logs. Defaults to the name of
            the loss.
        pair_reduction: string. `"sum"`, as in the papers, or `"mean"`, as in
            the authors' code of Patient KD, for a value that does not grow
            with the number of pairs. Defaults to `"sum"`.
        use_sample_weight: bool. Whether the data's sample weights count. Pass
            `False` for states and attention in token classification, where
            the weights mark the positions with labels. In an encoder-decoder,
            weights per position are the decoder's and do not count for taps
            of its encoder. Defaults to `True`.

    Raises:
        UsageError: (a `ValueError`) if an argument is invalid on its own.
            `kdkit.Distiller` checks the objective against the models.

    Example:

    >>> objective = kdkit.Objective(
    ...     kdkit.losses.HiddenStateMSE(),
    ...     tap="hidden_states",
    ...     layer_map="uniform",
    ...     projection="shared",
    ... )
    >>> objective.name
    'hidden_state_mse'
    """

    loss: Loss
    tap: Any = "logits"
    layer_map: str | dict[int, int] | None = None
    weight: float = 1.0
    projection: Projected = None
    include_embeddings: bool = True
    name: str | None = None
    pair_reduction: str = "sum"
    use_sample_weight: bool = True

    def __post_init__(self):
        loss = self.loss
        tap = self.tap
        if isinstance(tap, list):
            tap = tuple(tap)
        if not isinstance(loss, DistillationLoss):
            loss, tap = adapted(loss, tap)
        projection = self.projection
        if isinstance(projection, str):
            projection = Projection(projection)
        elif isinstance(projection, Mapping):
            projection = Projection(**projection)
        layer_map = self.layer_map
        if isinstance(layer_map, Mapping):
            # JSON's keys are strings.
            layer_map = {int(str(key)): layer_map[key] for key in layer_map}
        vars(self).update(
            loss=loss,
            tap=tap,
            layer_map=layer_map,
            projection=projection,
            name=loss.name if self.name is None else self.name,
        )
        if layer_map is None and self.kind in PER_LAYER_TAPS:
            vars(self)["layer_map"] = "uniform"
        _validate(self)

    @property
    def taps(self) -> tuple:
        """The tap of the teacher and the tap of the student."""
        if isinstance(self.tap, tuple):
            return self.tap
        return self.tap, self.tap

    @property
    def kind(self) -> str:
        """The kind of the taps, see `kdkit.taps.split_tap`, or `"layers"`."""
        if any(map(is_layer_tap, self.taps)):
            return LAYERS
        _, kind = split_tap(self.tap)
        return kind

    def get_config(self):
        config = dict(vars(self))
        config["loss"] = self.loss.to_setting()
        # A tap may be a function.
        config["tap"] = keras.saving.serialize_keras_object(self.tap)
        if self.projection is not None:
            config["projection"] = dataclasses.asdict(self.projection)
        return config

    @classmethod
    def from_config(cls, config):
        loss = _loss(config["loss"])
        tap = keras.saving.deserialize_keras_object(config["tap"])
        return cls(**config | {"loss": loss, "tap": tap})


def _validate(objective):
    """Raises a `UsageError` for errors that do not depend on the models."""
    loss = objective.loss
    tap = objective.tap
    kind = objective.kind
    name = type(loss).__name__
    known = (*TAPS, *SEQ2SEQ_TAPS)
    if kind == LAYERS:
        fits = all(
            one == "logits" or is_layer_tap(one) for one in objective.taps
        )
    else:
        fits = tap in known
    if not fits:
        raise unknown("tap", tap, (*known, "layer:NAME"))
    reduction = objective.pair_reduction
    if reduction not in PAIR_REDUCTIONS:
        raise unknown("pair_reduction", reduction, PAIR_REDUCTIONS)
    if objective.layer_map is not None and kind not in PER_LAYER_TAPS:
        raise UsageError(
            f"Tap {tap!r} is not per layer, so "
            f"layer_map={objective.layer_map!r} would not count."
        )
    if objective.projection is not None and not (
        kind in (*STATE_TAPS, LAYERS)
        and loss.needs_same_width
        and not isinstance(loss, losses.Matryoshka)
    ):
        raise UsageError(
            f"{name} on {tap!r} takes no projection: others would be trained "
            "than those of the saved student."
        )
    if kind != LAYERS and loss.taps is not None and kind not in loss.taps:
        raise UsageError(
            f"{name} compares the taps {', '.join(loss.taps)}, received "
            f"{tap!r}."
        )
    if isinstance(loss, losses.AttentionMSE) and (
        loss.parity and weighs_pairs(tap)
    ):
        raise UsageError(
            f"AttentionMSE's parity={loss.parity!r} would not count for "
            f"{tap!r}: it is for encoders."
        )
    require_weight("weight", objective.weight)


def require_weight(name, value):
    """Raises a `UsageError` for a weight below 0, or one that is no number."""
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(
            f"`{name}` must be at least 0 and finite, received {value}."
        )
