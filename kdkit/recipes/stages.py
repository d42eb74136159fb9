"""Stages: what a recipe is made of, as data."""

import dataclasses
import math
import re

from kdkit.backends import check_chunk_size
from kdkit.distillation.objective import Objective
from kdkit.errors import UsageError
from kdkit.settings import too_small


@dataclasses.dataclass(frozen=True)
class OptimizerSettings:
    """What of AdamW differs between papers and their code.

    Args:
        beta_2: float. Decay of the second moment. Defaults to `0.999`.
        bias_correction: bool. Whether the moments are corrected for their
            start at 0; BERT's own optimizer does not. Defaults to `True`.
        clipnorm: float or `None`. The norm that each weight's gradient is
            clipped to separately. Defaults to `None`.
        global_clipnorm: float or `None`. The norm that the gradient of all
            weights together is clipped to. Defaults to `None`.
        trains_padding: bool. Whether the word embedding of the padding token
            has a gradient, as it has where a loss counts padding. Defaults to
            `True`.

    Raises:
        UsageError: (a `ValueError`) if a number is impossible, or both norms
            are given.
    """

    beta_2: float = 0.999
    bias_correction: bool = True
    clipnorm: float | None = None
    global_clipnorm: float | None = None
    trains_padding: bool = True

    def __post_init__(self):
        problems = [
            f"{name} must be above 0 and finite, received {value}"
            for name in ("clipnorm", "global_clipnorm")
            if (value := getattr(self, name)) is not None
            and not 0 < value < math.inf
        ]
        if not 0 < self.beta_2 < 1:
            problems.append(
                f"beta_2 must be above 0 and below 1, received {self.beta_2}"
            )
        if self.clipnorm is not None and self.global_clipnorm is not None:
            problems.append(
                "clipnorm clips each weight's gradient and global_clipnorm "
                f"all together, received both ({self.clipnorm} and "
                f"{self.global_clipnorm}): set one of them to null"
            )
        if problems:
            raise UsageError(f"Optimizer: {'; '.join(problems)}.")


SCHEDULES = ("constant", "linear")
DATA = ("task", "corpus")
# Of folders, of tags in TensorBoard and of `--set stages.NAME.field=value`.
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage of training: objectives, optimiser, length.

    A stage without objectives trains on the labels alone and needs no teacher.

    Args:
        name: string. `"pretraining"`, `"general_distillation"`,
            `"intermediate_layer"`, `"prediction_layer"`, `"fine_tuning"`.
        epochs: int. Passes over the training data.
        learning_rate: float. The highest learning rate.
        objectives: tuple of `kdkit.Objective`.
        hard_label_weight: float. Weight of the loss on the labels, where
            `soft_label_weight` does not say it.
        soft_label_weight: float from 0 to 1, or `None`. PKD's α and LightPAFF's
            λ: objectives on logits count so many times, and the loss on the
            labels one minus that. `None` for the weights as they stand.
        schedule: string. `"constant"`, or `"linear"` for warm-up and decay.
        warmup_fraction: float. Share of the updates spent on warm-up.
        weight_decay: float. Decoupled weight decay, not applied to biases and
            layer normalisation.
        batch_size: int. Rows per update.
        batch_tokens: int. Of an encoder-decoder, whose sentences differ in
            length, in place of rows: tokens per update at most, padding and
            both sides included.
        gradient_accumulation_steps: int. In how many parts a batch is computed,
            whose gradients are averaged for its update. Takes the memory of a
            part. The update is that of the whole batch where the losses are
            means over as much in each part: over its rows, or over tokens of
            rows of one length, or over rows with a label. Divides
            `batch_size`.
        keep_best: bool. Whether the stage ends with the weights of its best
            epoch on dev; otherwise with those of its last.
        average_last: int, from 1 to `epochs`. The stage ends with the mean of
            the model's weights after so many of its last epochs (Vaswani et
            al., 2017, section 6.1), which above 1 excludes `keep_best`.
        data: string. What it trains on: `"task"`, or `"corpus"` for running
            text, whose labels are the masked tokens or those that follow.
        chunk_size: int or `None`. Of decoders, at how many positions the logits
            are there at one time, as in `kdkit.Distiller`.
        label_smoothing: float, at least 0 and below 1. The share of the loss on
            labels that all classes divide equally, as in
            `kdkit.losses.SmoothedCrossEntropy`. Not of metrics.
        optimizer: `kdkit.recipes.stages.OptimizerSettings`.
    """

    name: str
    epochs: int
    learning_rate: float
    objectives: tuple[Objective, ...] = ()
    hard_label_weight: float = 0.0
    soft_label_weight: float | None = None
    schedule: str = "linear"
    warmup_fraction: float = 0.1
    weight_decay: float = 0.01
    batch_size: int = 32
    batch_tokens: int = 4096
    gradient_accumulation_steps: int = 1
    keep_best: bool = True
    average_last: int = 1
    data: str = "task"
    chunk_size: int | None = None
    label_smoothing: float = 0.0
    optimizer: OptimizerSettings = OptimizerSettings()

    def __post_init__(self):
        check_chunk_size(self.chunk_size)
        problems = [
            f"{name} must be above 0, received {getattr(self, name)}"
            for name in (
                "epochs",
                "learning_rate",
                "batch_size",
                "batch_tokens",
                "gradient_accumulation_steps",
            )
            if not 0 < getattr(self, name) < math.inf
        ]
        problems += too_small(self, {"weight_decay": 0, "hard_label_weight": 0})
        if not NAME.fullmatch(self.name):
            problems.append(
                "name must be letters, digits, _ and -, with a letter first, "
                f"received {self.name!r}"
            )
        if self.batch_size % max(self.gradient_accumulation_steps, 1):
            problems.append(
                "gradient_accumulation_steps must divide batch_size, received "
                f"{self.gradient_accumulation_steps} and {self.batch_size}"
            )
        if self.chunk_size is not None and not self.objectives:
            problems.append(
                "chunk_size is of objectives on logits, and there are none, "
                f"received {self.chunk_size}"
            )
        if self.schedule not in SCHEDULES:
            problems.append(
                f"schedule must be one of {SCHEDULES}, received "
                f"{self.schedule!r}"
            )
        if self.data == "corpus" and not self.optimizer.trains_padding:
            problems.append(
                "running text has no padding, received "
                "optimizer.trains_padding=False: set it to true"
            )
        if self.data not in DATA:
            problems.append(
                f"data must be one of {DATA}, received {self.data!r}"
            )
        if not 0 <= self.warmup_fraction < 1:
            problems.append(
                "warmup_fraction must be in [0, 1), received "
                f"{self.warmup_fraction}"
            )
        problems += self._averaging_problems()
        problems += self._label_problems()
        if self.objectives and not self._counts_anything():
            problems.append(
                "objectives and labels all have weight 0, so that nothing is "
                "learned: give one of them a weight above 0"
            )
        if problems:
            raise UsageError(f"Stage {self.name!r}: {'; '.join(problems)}.")

    def _averaging_problems(self):
        """What is wrong with the epochs to average, as a list of texts."""
        problems = []
        if not 1 <= self.average_last <= max(self.epochs, 1):
            problems.append(
                "average_last must be at least 1 and at most epochs "
                f"({self.epochs}), received {self.average_last}"
            )
        if self.average_last > 1 and self.keep_best:
            problems.append(
                "a stage ends with its best epoch or with a mean, received "
                f"keep_best=True and average_last={self.average_last}: set "
                "keep_best to False, or average_last to 1"
            )
        return problems

    def _label_problems(self):
        """What is wrong with the weights of labels, as a list of texts."""
        problems = []
        if not 0 <= self.label_smoothing < 1:
            problems.append(
                "label_smoothing must be in [0, 1), received "
                f"{self.label_smoothing}"
            )
        soft = self.soft_label_weight
        if soft is None:
            if not self.objectives and self.hard_label_weight <= 0:
                problems.append(
                    "without objectives hard_label_weight must be above 0"
                )
            elif self.label_smoothing and not self.hard_label_weight:
                problems.append(self._no_labels("hard_label_weight is 0"))
            return problems
        if self.label_smoothing and soft == 1:
            problems.append(self._no_labels("soft_label_weight is 1"))
        if not 0 <= soft <= 1:
            problems.append(
                f"soft_label_weight must be in [0, 1], received {soft}"
            )
        if self.hard_label_weight:
            problems.append(
                "hard_label_weight is 1 - soft_label_weight where that is "
                f"given, received both ({self.hard_label_weight} and {soft})"
            )
        if not any(settings.tap == "logits" for settings in self.objectives):
            problems.append(
                "soft_label_weight needs an objective on logits, received "
                f"taps {[settings.tap for settings in self.objectives]}"
            )
        return problems

    def _counts_anything(self):
        """Whether the loss on the labels or any objective has a weight."""
        return self.label_weight != 0 or any(
            settings.weight * self._factor(settings)
            for settings in self.objectives
        )

    def _factor(self, settings):
        """How many times an objective's weight counts: on logits, α times."""
        if self.soft_label_weight is None or settings.tap != "logits":
            return 1.0
        return self.soft_label_weight

    def _no_labels(self, reason):
        """Why there is nothing to smooth."""
        return (
            "label_smoothing is of the loss on labels, which counts nothing "
            f"where {reason}, received {self.label_smoothing}"
        )

    @property
    def label_weight(self) -> float:
        """The weight of the loss on the labels: 1 − α, or as it stands."""
        if self.soft_label_weight is None:
            return self.hard_label_weight
        return 1.0 - self.soft_label_weight

    @property
    def trains_head(self) -> bool:
        """Whether the model's logits count."""
        return self.label_weight > 0 or any(
            settings.tap == "logits" for settings in self.objectives
        )

    @property
    def mean_learning_rate(self) -> float:
        """The mean of the rates of its updates."""
        if self.schedule == "linear":  # up, and down to 0
            return self.learning_rate / 2
        return self.learning_rate

    @property
    def averaged_epochs(self) -> tuple[int, ...]:
        """The epochs whose weights are averaged, from 1; empty for none."""
        if self.average_last == 1:
            return ()
        return tuple(
            range(self.epochs - self.average_last + 1, self.epochs + 1)
        )

    @property
    def losses_less_entropy(self) -> tuple[str, ...]:
        """The losses from which the teacher's entropy is subtracted.

        Empty if no objective of the stage is a cross-entropy.
        """
        names = [
            objective.name
            for objective in self.objectives
            if objective.loss.has_entropy
        ]
        return (*names, "loss") if names else ()

    def weighted_objectives(self) -> list[Objective]:
        """Returns the objectives, those on logits α times."""
        return [
            dataclasses.replace(
                objective, weight=objective.weight * self._factor(objective)
            )
            for objective in self.objectives
        ]


def without_teacher(stage: Stage) -> Stage:
    """The stage on the labels alone, or on the masked tokens."""
    return dataclasses.replace(
        stage,
        objectives=(),
        soft_label_weight=None,
        hard_label_weight=1.0,
        chunk_size=None,
    )


def same_number_of_updates(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The control arm: no teacher, for as many epochs as the stages have.

    Stages on the task become one, on the labels alone. Its batch size is that
    of the first of them, so that the number of updates is the same where they
    share a batch size, and its learning rate that of the last, which teaches
    answers too: a rate that suits states may be far too high for labels. Stages
    on a corpus stay, without their objectives.
    """
    on_corpus = tuple(
        without_teacher(stage) for stage in stages if stage.data == "corpus"
    )
    stages = tuple(stage for stage in stages if stage.data == "task")
    if not stages:
        return on_corpus
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
            average_last=last.average_last,
            keep_best=last.keep_best,
            optimizer=last.optimizer,
        ),
    )
