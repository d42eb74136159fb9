"""Objectives: one term of the distillation loss each."""

import dataclasses
import math
from collections.abc import Mapping

import keras
from keras import ops

from kdkit.errors import UsageError
from kdkit.layer_maps import layer_map as make_layer_map
from kdkit.losses import AttentionMSE
from kdkit.losses import DistillationLoss
from kdkit.losses import LogitKLDivergence
from kdkit.losses import RelationKLDivergence
from kdkit.losses import SoftCrossEntropy
from kdkit.projections import get_projection
from kdkit.taps import ATTENTION_TAPS
from kdkit.taps import CLS_INDEX
from kdkit.taps import PER_LAYER_TAPS
from kdkit.taps import TAPS
from kdkit.taps import VECTOR_TAPS

# Taps with a position axis: padding does not count there.
MASKED_TAPS = (
    "embedding_output",
    "hidden_states",
    *ATTENTION_TAPS,
    *VECTOR_TAPS,
)
# Taps as wide as the model: a projection can bridge the widths there.
PROJECTED_TAPS = (
    "embedding_output",
    "pooled_output",
    "hidden_states",
    "cls_states",
)
# Losses that mean something on some taps only.
LOSS_TAPS = {
    AttentionMSE: ATTENTION_TAPS,
    RelationKLDivergence: VECTOR_TAPS,
    SoftCrossEntropy: ("logits",),
    LogitKLDivergence: ("logits",),
}


class Objective:
    """One term of the distillation loss: loss × tap × layer map × weight.

    Taps of the whole model are compared once. Taps per layer are compared pair
    by pair along the layer map, and the values are summed over the pairs.

    Args:
        loss: `kdkit.losses.DistillationLoss`. Compares the two tensors.
        tap: string. What is compared, one of `kdkit.taps.TAPS`. Defaults to
            `"logits"`.
        layer_map: string or dict, for taps per layer. See `kdkit.layer_map`.
            `None` means `"uniform"` there. Defaults to `None`.
        weight: float. Factor of this term in the total loss. The logs show
            the value before it. Defaults to `1.0`.
        projection: `None`, `"shared"` (one dense layer with bias for all
            pairs), `"per_layer"`, or a `kdkit.projections.Projection`.
            Defaults to `None`.
        include_embeddings: bool. For `"hidden_states"`, whether the embedding
            outputs (layer 0 to layer 0) are compared too. Defaults to `True`.
        name: string. Name of the scalar in the logs. Defaults to the name of
            the loss.

    Raises:
        UsageError: (a `ValueError`) if an argument is invalid on its own. What
            depends on the models is checked by `kdkit.Distiller`.

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

    def __init__(
        self,
        loss,
        tap="logits",
        layer_map=None,
        weight=1.0,
        projection=None,
        include_embeddings=True,
        name=None,
    ):
        _check_arguments(loss, tap, layer_map, weight, projection)
        if layer_map is None and tap in PER_LAYER_TAPS:
            layer_map = "uniform"
        self.loss = loss
        self.tap = tap
        self.layer_map = layer_map
        self.weight = weight
        self.projection = get_projection(projection)
        self.include_embeddings = include_embeddings
        self.name = name or loss.name

    def bind(self, teacher, student, dtype=None):
        """Checks the objective against two models and builds projections.

        Args:
            teacher: `kdkit.taps.ModelShape` of the teacher.
            student: `kdkit.taps.ModelShape` of the student.
            dtype: dtype or policy of the projections.

        Returns:
            A `BoundObjective`.

        Raises:
            UsageError: if the models' sizes do not fit each other.
        """
        pairs = self._pairs(teacher, student)
        _check_sizes(self, teacher, student)
        projections = {}
        if self.projection is not None:
            projections = self.projection.build(
                self.name,
                student.hidden_dim,
                teacher.hidden_dim,
                [student_index for student_index, _ in pairs],
                dtype,
            )
        return BoundObjective(self, tuple(pairs), projections)

    def _pairs(self, teacher, student):
        """Pairs of student and teacher layer index, (0, 0) if not per layer."""
        if self.tap not in PER_LAYER_TAPS:
            return [(0, 0)]
        pairs = list(
            make_layer_map(
                self.layer_map, teacher.num_layers, student.num_layers
            ).items()
        )
        if self.tap == "hidden_states" and self.include_embeddings:
            pairs.insert(0, (0, 0))
        return pairs

    def get_config(self):
        projection = self.projection
        layer_map = self.layer_map
        if isinstance(layer_map, Mapping):
            layer_map = [list(pair) for pair in layer_map.items()]
        return {
            "loss": keras.saving.serialize_keras_object(self.loss),
            "tap": self.tap,
            "layer_map": layer_map,
            "weight": self.weight,
            "projection": projection and dataclasses.asdict(projection),
            "include_embeddings": self.include_embeddings,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        config["loss"] = keras.saving.deserialize_keras_object(config["loss"])
        if isinstance(config["layer_map"], list):
            config["layer_map"] = dict(config["layer_map"])
        return cls(**config)


class BoundObjective:
    """An objective with its pairs and projections for two given models."""

    def __init__(self, objective, pairs, projections):
        self.objective = objective
        self.pairs = pairs
        self.projections = projections

    def sums(self, teacher_taps, student_taps, padding_mask, sample_weight):
        """Returns Σ weight × value, summed over pairs, and Σ weight.

        Their quotient is the value of the objective. Both add up over
        replicas and batches.

        Args:
            teacher_taps: dict of the teacher's tensors by tap name.
            student_taps: dict of the student's tensors by tap name.
            padding_mask: `None` or tensor of shape `(batch_size,
                sequence_length)`, true or 1 where there is a token.
            sample_weight: `None` or tensor of shape `(batch_size,)` or
                `(batch_size, sequence_length)`.
        """
        tap = self.objective.tap
        loss = self.objective.loss
        weights = combine_weights(tap, padding_mask, sample_weight)
        numerators = []
        for student_index, teacher_index in self.pairs:
            teacher = _read(teacher_taps[tap], tap, teacher_index)
            student = _read(student_taps[tap], tap, student_index)
            projection = self.projections.get(student_index)
            if projection is not None:
                student = projection(student)
            # Every pair has the same shapes, so the same denominator.
            numerator, denominator = loss.sums(teacher, student, weights)
            numerators.append(numerator)
        return sum(numerators), denominator


def combine_weights(tap, padding_mask, sample_weight):
    """Multiplies the padding mask of a tap with the data's sample weights.

    Where the tap has one vector per example, a weight per position is that of
    [CLS]. Logits take the sample weights as they are.
    """
    if sample_weight is not None:
        sample_weight = ops.cast(sample_weight, "float32")
        if len(sample_weight.shape) == 2 and sample_weight.shape[1] == 1:
            sample_weight = sample_weight[:, 0]
        if tap in ("cls_states", "pooled_output"):
            if len(sample_weight.shape) == 2:
                sample_weight = sample_weight[:, CLS_INDEX]
            return sample_weight
    if tap not in MASKED_TAPS or padding_mask is None:
        return sample_weight
    mask = ops.cast(padding_mask, "float32")
    if sample_weight is None:
        return mask
    if len(sample_weight.shape) == 1:
        sample_weight = sample_weight[:, None]
    return mask * sample_weight


def _read(tensors, tap, layer_index):
    """The tensor of a layer index: states have N + 1, block taps N entries."""
    if tap not in PER_LAYER_TAPS:
        return tensors
    if tap in ATTENTION_TAPS + VECTOR_TAPS:
        return tensors[layer_index - 1]
    return tensors[layer_index]


def _check_arguments(loss, tap, layer_map, weight, projection):
    """Raises a `UsageError` for what is wrong whatever the models are."""
    if not isinstance(loss, DistillationLoss):
        raise UsageError(
            "Invalid value for argument `loss`. Expected an instance of "
            f"kdkit.losses.DistillationLoss. Received: {loss!r}. For example "
            "kdkit.losses.SoftCrossEntropy()."
        )
    if tap not in TAPS:
        raise UsageError(
            f"Unknown tap. Expected one of {TAPS}. Received: tap={tap!r}."
        )
    if layer_map is not None and tap not in PER_LAYER_TAPS:
        raise UsageError(
            f"Tap {tap!r} is not per layer, so it takes no layer map. "
            f"Received: layer_map={layer_map!r}. Leave it out, or use one of "
            f"the taps {PER_LAYER_TAPS}."
        )
    if projection is not None and tap not in PROJECTED_TAPS:
        raise UsageError(
            f"Tap {tap!r} takes no projection. Expected one of the taps "
            f"{PROJECTED_TAPS}. Received: projection={projection!r}."
        )
    for loss_class, taps in LOSS_TAPS.items():
        if isinstance(loss, loss_class) and tap not in taps:
            raise UsageError(
                f"{loss_class.__name__} cannot compare tap {tap!r}. Expected "
                f"one of the taps {taps}. Received: tap={tap!r}."
            )
    if not (math.isfinite(weight) and weight >= 0):
        raise UsageError(
            "Invalid value for argument `weight`. Expected a finite number of "
            f"at least 0. Received: weight={weight}."
        )


def _check_sizes(objective, teacher, student):
    """Raises a `UsageError` where the models' sizes do not fit."""
    tap = objective.tap
    name = objective.name
    if (
        tap in PROJECTED_TAPS
        and objective.projection is None
        and teacher.hidden_dim != student.hidden_dim
    ):
        raise UsageError(
            f"Objective {name!r} compares tap {tap!r} of different widths "
            "with no projection. Received: teacher hidden_dim="
            f"{teacher.hidden_dim}, student hidden_dim={student.hidden_dim}. "
            'Pass projection="shared" or projection="per_layer".'
        )
    relations = isinstance(objective.loss, RelationKLDivergence)
    if relations:
        num_relation_heads = objective.loss.num_relation_heads
        for role, shape in (("teacher", teacher), ("student", student)):
            if shape.hidden_dim % num_relation_heads:
                raise UsageError(
                    f"Objective {name!r}: num_relation_heads must divide the "
                    f"{role}'s width. Received: num_relation_heads="
                    f"{num_relation_heads}, hidden_dim={shape.hidden_dim}."
                )
    compares_heads = tap in ATTENTION_TAPS + VECTOR_TAPS and not relations
    if compares_heads and teacher.num_heads != student.num_heads:
        raise UsageError(
            f"Objective {name!r} compares tap {tap!r} head by head, and the "
            "head counts differ. Received: teacher num_heads="
            f"{teacher.num_heads}, student num_heads={student.num_heads}. "
            "Build the student with as many heads as the teacher, or use "
            'RelationKLDivergence on the taps "queries", "keys", "values".'
        )
    if (
        tap in VECTOR_TAPS
        and not relations
        and teacher.hidden_dim != student.hidden_dim
    ):
        raise UsageError(
            f"Objective {name!r} compares tap {tap!r} of different widths. "
            f"Received: teacher hidden_dim={teacher.hidden_dim}, student "
            f"hidden_dim={student.hidden_dim}. Use RelationKLDivergence, "
            "which needs no equal widths."
        )
    if tap == "logits" and teacher.num_classes != student.num_classes:
        raise UsageError(
            f"Objective {name!r} compares logits of different class counts. "
            f"Received: teacher num_classes={teacher.num_classes}, student "
            f"num_classes={student.num_classes}. Build the student with "
            f"num_classes={teacher.num_classes}."
        )
