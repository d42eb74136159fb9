"""The `Stage`: one stage of training, as data."""

import dataclasses
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from kdkit.distillation.objective import Objective
from kdkit.errors import UsageError
from kdkit.quantization.precisions import require_precision
from kdkit.recipes.named import by_name
from kdkit.settings import STRICT, Count, Name, Positive, Share, Weight


@dataclass(frozen=True, config=STRICT)
class OptimizerSettings:
    """The settings of AdamW that differ between papers and their code.

    Args:
        beta_2: float. Decay of the second moment. Defaults to `0.999`.
        bias_correction: bool. Whether the moments are corrected for their
            start at 0. BERT's own optimizer does not correct them. Defaults to
            `True`.
        clipnorm: float or `None`. The maximum norm of each weight's gradient,
            clipped separately. Defaults to `None`.
        global_clipnorm: float or `None`. The maximum norm of the gradient of
            all weights together. Defaults to `None`.
        trains_padding: bool. Whether the padding token's embedding gets a
            gradient, which is nonzero if a loss counts padding. Defaults to
            `True`.

    Raises:
        pydantic.ValidationError: (a `ValueError`) for wrong fields.
    """

    beta_2: Annotated[float, Field(gt=0, lt=1)] = 0.999
    bias_correction: bool = True
    clipnorm: Positive | None = None
    global_clipnorm: Positive | None = None
    trains_padding: bool = True


# The data of recipes of sentence encoders.
EMBEDDING_DATA = ("texts", "translations", "candidates")
Part = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True, config=STRICT)
class Stage:
    """One stage of training: objectives, optimizer, number of epochs.

    A stage without objectives trains on labels only and needs no teacher.

    Args:
        name: string, such as `"pretraining"`, `"general_distillation"`,
            `"intermediate_layer"`, `"prediction_layer"` or `"fine_tuning"`.
        epochs: int. Passes over the training data.
        learning_rate: float. The highest learning rate.
        objectives: tuple of `kdkit.Objective`.
        hard_label_weight: float. Weight of the label loss, if
            `soft_label_weight` is `None`.
        soft_label_weight: float from 0 to 1, or `None`. PKD's α and LightPAFF's
            λ. It multiplies the weights of objectives on logits, and one minus
            it is the weight of the label loss. `None` leaves all weights
            unchanged.
        schedule: string. `"constant"`; or warm-up, and then a decay to 0 that
            is `"linear"` or half a `"cosine"`.
        warmup_fraction: float. Share of the updates spent on warm-up.
        weight_decay: float. Decoupled weight decay, not applied to biases and
            layer normalization.
        batch_size: int. Examples per update.
        batch_tokens: int. For an encoder-decoder, whose sentences differ in
            length, instead of a fixed number of examples: the maximum number of
            tokens per update, with padding and both sides.
        gradient_accumulation_steps: int. The number of parts in which a batch
            is computed; their gradients are averaged for one update. Needs
            only the memory for one part. The update equals that of the whole
            batch if the losses are means over equally many elements in each
            part: over examples, over tokens of examples with equal lengths, or
            over labelled examples. Must divide `batch_size`.
        keep_best: bool. Whether the stage ends with the weights of its best
            epoch on dev; otherwise with those of its last epoch. The dev loss
            decides between epochs with the same metric.
        data: string. The training data: `"task"`; `"corpus"` for running text,
            whose labels are the masked tokens or the next tokens; `"texts"`
            for texts without labels, whose embeddings are compared;
            `"translations"` for texts with their translations;
            `"candidates"` for queries with documents to rank.
        chunk_size: int or `None`. For decoders, the number of positions whose
            logits are in memory at once, as in `kdkit.Distiller`.
        label_smoothing: float, at least 0 and below 1. The probability that
            all classes share equally in the label loss, as in
            `kdkit.losses.SmoothedCrossEntropy`. Does not change metrics.
        optimizer: `kdkit.recipes.stages.OptimizerSettings`.
        quantize: string or `None`. The precision of the exported file whose
            rounding the student computes with, as in
            `kdkit.quantization.FakeQuantization`. Defaults to `None`.
        least_updates: int. A run has more epochs, at most 50, until a small
            table has so many updates.
    """

    name: Name
    epochs: Count
    learning_rate: Positive
    objectives: by_name(Objective) = ()
    hard_label_weight: Weight = 0.0
    soft_label_weight: Share | None = None
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    warmup_fraction: Part = 0.1
    weight_decay: Weight = 0.01
    batch_size: Count = 32
    batch_tokens: Count = 4096
    gradient_accumulation_steps: Count = 1
    keep_best: bool = True
    data: Literal["task", "corpus", "texts", "translations", "candidates"] = (
        "task"
    )
    chunk_size: Count | None = None
    label_smoothing: Part = 0.0
    optimizer: OptimizerSettings = OptimizerSettings()
    quantize: str | None = None
    least_updates: Annotated[int, Field(ge=0)] = 0

    def __post_init__(self):
        if self.quantize is not None:
            require_precision(self.quantize)
        if problem := self._contradiction():
            raise UsageError(f"Stage {self.name!r}: {problem}.")

    def _contradiction(self):
        """Returns which setting would not count, or `None`."""
        if self.batch_size % self.gradient_accumulation_steps:
            return (
                f"gradient_accumulation_steps={self.gradient_accumulation_steps}"
                f" does not divide batch_size={self.batch_size}"
            )
        if self.quantize is not None and self.data != "task":
            return f"quantize={self.quantize!r} is for stages on the task"
        if self.label_smoothing and not self.label_weight:
            return "label_smoothing needs labels, whose weight is 0"
        if self.soft_label_weight is not None:
            if self.hard_label_weight:
                return "soft_label_weight replaces hard_label_weight"
            if not any(one.tap == "logits" for one in self.objectives):
                return "soft_label_weight needs an objective on logits"
        if not self._counts_anything():
            return "objectives and labels have weight 0: nothing is learned"
        return None

    def _counts_anything(self):
        """Whether the label loss or any objective has a weight."""
        return self.label_weight != 0 or any(
            settings.weight * self._factor(settings)
            for settings in self.objectives
        )

    def _factor(self, settings):
        """Returns the factor of an objective's weight: α on logits, else 1."""
        if self.soft_label_weight is None or settings.tap != "logits":
            return 1.0
        return self.soft_label_weight

    @property
    def label_weight(self) -> float:
        """The weight of the label loss: 1 − α, or `hard_label_weight`."""
        if self.soft_label_weight is None:
            return self.hard_label_weight
        return 1.0 - self.soft_label_weight

    @property
    def trains_head(self) -> bool:
        """Whether the loss depends on the model's logits."""
        return self.label_weight > 0 or any(
            settings.tap == "logits" for settings in self.objectives
        )

    @property
    def mean_learning_rate(self) -> float:
        """The mean learning rate over the stage's updates."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate / 2  # rises, then falls to 0

    @property
    def losses_less_entropy(self) -> tuple[str, ...]:
        """The losses from which the teacher's entropy is subtracted.

        Empty if none of the stage's objectives is a cross-entropy.
        """
        names = [
            objective.name
            for objective in self.objectives
            if objective.loss.has_entropy
        ]
        return (*names, "loss") if names else ()

    def weighted_objectives(self) -> list[Objective]:
        """Returns the objectives; α multiplies the weights on logits."""
        return [
            dataclasses.replace(
                objective, weight=objective.weight * self._factor(objective)
            )
            for objective in self.objectives
        ]


def without_teacher(stage: Stage) -> Stage:
    """Returns the stage with labels, or masked tokens, as its only loss."""
    return dataclasses.replace(
        stage,
        objectives=(),
        soft_label_weight=None,
        hard_label_weight=1.0,
        chunk_size=None,
    )


def named_without_teacher(stages: tuple[Stage, ...], name: str) -> tuple:
    """Returns the control without a teacher, with as many updates."""
    return tuple(
        dataclasses.replace(
            without_teacher(stage),
            name=name if number == 0 else f"{name}_{number + 1}",
        )
        for number, stage in enumerate(stages)
    )


def same_number_of_updates(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Returns the control arm: no teacher, and as many epochs."""
    on_corpus = tuple(
        without_teacher(stage) for stage in stages if stage.data == "corpus"
    )
    quantized = tuple(
        without_teacher(stage) for stage in stages if stage.quantize
    )
    stages = tuple(
        stage
        for stage in stages
        if stage.data == "task" and stage.quantize is None
    )
    if not stages:
        return (*on_corpus, *quantized)
    first, last = stages[0], stages[-1]
    return (
        *on_corpus,
        Stage(
            name="fine_tuning",
            epochs=sum(stage.epochs for stage in stages),
            learning_rate=last.learning_rate,
            hard_label_weight=1.0,
            schedule="linear",
            weight_decay=last.weight_decay,
            batch_size=first.batch_size,
            gradient_accumulation_steps=first.gradient_accumulation_steps,
            label_smoothing=last.label_smoothing,
            keep_best=last.keep_best,
            optimizer=last.optimizer,
        ),
        *quantized,
    )
