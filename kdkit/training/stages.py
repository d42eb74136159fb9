"""Stages: what a recipe is made of, as data."""

import dataclasses
import math
import re

import keras

from kdkit import distillation
from kdkit import losses
from kdkit.backends import check_chunk_size
from kdkit.backends import keras_is_loaded
from kdkit.distillation.layer_maps import numbered_blocks
from kdkit.distillation.objective import Projection
from kdkit.errors import UsageError
from kdkit.reporting.event_fields import LESS_ENTROPY
from kdkit.training import optimizers
from kdkit.training import optimizers as schedules
from kdkit.training.model_settings import too_small

# Classes, or names of classes in `kdkit.losses`, which needs Keras.
LOSSES = {
    "attention_mse": "AttentionMSE",
    "embedding_mse": "EmbeddingMSE",
    "hidden_state_cosine": "HiddenStateCosine",
    "hidden_state_mse": "HiddenStateMSE",
    "logit_kl_divergence": "LogitKLDivergence",
    "logit_mse": "LogitMSE",
    "patience_mse": "PatienceMSE",
    "relation_kl_divergence": "RelationKLDivergence",
    "soft_binary_cross_entropy": "SoftBinaryCrossEntropy",
    "soft_cross_entropy": "SoftCrossEntropy",
}
# Their arguments, which are checked before Keras is there.
LOSS_SETTINGS = {
    "attention_mse": ("parity",),
    "embedding_mse": (),
    "hidden_state_cosine": (),
    "hidden_state_mse": ("parity",),
    "logit_kl_divergence": ("temperature", "parity", "top_k"),
    "logit_mse": (),
    "patience_mse": ("parity",),
    "relation_kl_divergence": ("num_relation_heads", "mean_over"),
    "soft_binary_cross_entropy": (
        "temperature",
        "scale_by_temperature_squared",
    ),
    "soft_cross_entropy": (
        "temperature",
        "scale_by_temperature_squared",
        "parity",
    ),
}


@dataclasses.dataclass(frozen=True)
class ObjectiveSettings:
    """A `kdkit.Objective` as data.

    Args:
        name: string. Name of the scalar in the logs.
        loss: string. Name of the loss, a key of `LOSSES`.
        tap: string. What is compared.
        loss_settings: dict. Arguments of the loss, such as `temperature`.
        layer_map: string, dict from student to teacher block, or `None`.
        weight: float. Factor in the total loss.
        projection: string or `None`. `"shared"` or `"per_layer"`.
        projection_bias: bool. Whether the projection has a bias.
        include_embeddings: bool. Whether `"hidden_states"` has the pair 0→0.
        pair_reduction: string. `"sum"` or `"mean"` over the pairs of layers.
        use_sample_weight: bool. Whether the data's sample weights count.
    """

    name: str
    loss: str
    tap: str = "logits"
    loss_settings: dict = dataclasses.field(default_factory=dict)
    layer_map: str | dict[str, int] | None = None
    weight: float = 1.0
    projection: str | None = None
    projection_bias: bool = True
    include_embeddings: bool = True
    pair_reduction: str = "sum"
    use_sample_weight: bool = True

    def __post_init__(self):
        if self.loss not in LOSSES:
            raise UsageError(
                f"Unknown loss of objective {self.name!r}. Expected one of "
                f"{sorted(LOSSES)}. Received: {self.loss!r}."
            )
        self._check_loss_settings()
        if keras_is_loaded():  # or else `check_objectives` does it
            self.build()

    def _check_loss_settings(self):
        """Refuses what is wrong with them and can be known without Keras."""
        known = {*LOSS_SETTINGS.get(self.loss, self.loss_settings), "name"}
        unknown = sorted(set(self.loss_settings) - known)
        if unknown:
            raise UsageError(
                f"Wrong `loss_settings` of objective {self.name!r}: "
                f"{self.loss} has no {unknown[0]!r}. Expected some of "
                f"{sorted(known)}. Received: {self.loss_settings}."
            )
        value = self.loss_settings.get("temperature", 1.0)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise UsageError(
                f"Wrong `loss_settings` of objective {self.name!r}. Expected a "
                f"number above 0 as temperature. Received: {value!r}. Use 1.0 "
                "for the plain softmax."
            )

    @property
    def counts_padding(self) -> bool:
        """Whether its value depends on the padding of a batch."""
        is_own = isinstance(LOSSES[self.loss], str)
        if is_own and self.loss_settings.get("parity") is None:
            return False  # known without Keras: kdkit's losses exclude it
        return self.build().loss.counts_padding

    def build(self, factor: float = 1.0) -> "distillation.Objective":
        """Returns the objective, its weight times a factor."""
        loss = LOSSES[self.loss]
        if isinstance(loss, str):
            loss = getattr(losses, loss)
        try:
            loss = loss(**self.loss_settings)
        except TypeError as error:
            raise UsageError(
                f"Wrong `loss_settings` of objective {self.name!r}: {error}. "
                f"Received: {self.loss_settings}."
            ) from error
        layer_map = self.layer_map
        if isinstance(layer_map, dict):
            try:
                layer_map = numbered_blocks(layer_map)
            except UsageError as error:
                raise UsageError(f"Objective {self.name!r}: {error}") from error
        projection = self.projection
        if projection is not None:
            projection = Projection(projection, self.projection_bias)
        return distillation.Objective(
            loss,
            tap=self.tap,
            layer_map=layer_map,
            weight=factor * self.weight,
            projection=projection,
            include_embeddings=self.include_embeddings,
            name=self.name,
            pair_reduction=self.pair_reduction,
            use_sample_weight=self.use_sample_weight,
        )


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
        objectives: tuple of `ObjectiveSettings`.
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
        optimizer: `kdkit.training.stages.OptimizerSettings`.
    """

    name: str
    epochs: int
    learning_rate: float
    objectives: tuple[ObjectiveSettings, ...] = ()
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
    def loss_meaning(self) -> dict:
        """The field of an `"epoch"` event with the losses less an entropy.

        Empty if no objective of the stage is a cross-entropy.
        """
        names = [
            objective.name
            for objective in self.build_objectives()
            if objective.loss.has_entropy
        ]
        return {LESS_ENTROPY: [*names, "loss"]} if names else {}

    def build_objectives(self) -> list["distillation.Objective"]:
        """Returns the objectives, those on logits α times."""
        return [
            settings.build(self._factor(settings))
            for settings in self.objectives
        ]

    def make_label_loss(self, loss):
        """Returns the loss on the labels, smoothed where the stage says so.

        It is `None` in a stage where labels do not count.

        Args:
            loss: `keras.losses.Loss`, as the material has it.

        Raises:
            UsageError: if labels of another loss are to be smoothed.
        """
        if self.objectives and not self.label_weight:
            return None
        if not self.label_smoothing:
            return loss
        if not isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
            raise UsageError(
                f"Stage {self.name!r}: label smoothing is for labels that are "
                "one of several classes. Received: label_smoothing="
                f"{self.label_smoothing}, and labels whose loss is "
                f"{loss.name!r}. Use label_smoothing=0."
            )
        return losses.SmoothedCrossEntropy(
            self.label_smoothing, reduction=loss.reduction
        )

    def make_optimizer(
        self,
        num_steps: int,
        fused: bool = False,
        padding_row: tuple[str, int] | None = None,
    ):
        """Returns the AdamW optimizer of the stage.

        Args:
            num_steps: int. Updates of the stage.
            fused: bool, as in `kdkit.training.optimizers.AdamW`. Defaults to
                `False`.
            padding_row: tuple of the path of the word embeddings and the row of
                the padding token, or `None` for models or rows without one,
                which `optimizer.trains_padding` then says nothing about.
                Defaults to `None`.
        """
        learning_rate = self.learning_rate
        num_parts = self.gradient_accumulation_steps
        if self.schedule == "linear":
            learning_rate = schedules.LinearWarmupDecay(
                learning_rate, num_steps, self.warmup_fraction, num_parts
            )
        settings = dataclasses.asdict(self.optimizer)
        trains_padding = settings.pop("trains_padding")
        optimizer = optimizers.AdamW(
            learning_rate=learning_rate,
            weight_decay=self.weight_decay,
            epsilon=1e-6,  # as BERT's own optimizer
            fused=fused,
            untrained_rows=None
            if trains_padding or padding_row is None
            else dict([padding_row]),
            gradient_accumulation_steps=num_parts if num_parts > 1 else None,
            **settings,
        )
        # Matches the Keras paths of biases and of layer normalisation.
        optimizer.exclude_from_weight_decay(
            var_names=["bias", "layer_norm", "gamma", "beta"]
        )
        return optimizer


def check_objectives(settings) -> None:
    """Builds all objectives of a run, and of the runs in it, as a check.

    The command line makes settings before Keras is there to check them.

    Args:
        settings: settings of a run, or a `Stage`, or a tuple of these.

    Raises:
        UsageError: (a `ValueError`) for the first that cannot be built.
    """
    if isinstance(settings, Stage):
        settings.build_objectives()
    elif isinstance(settings, tuple | list):
        for entry in settings:
            check_objectives(entry)
    elif isinstance(settings, dict):
        check_objectives(tuple(settings.values()))
    elif dataclasses.is_dataclass(settings):
        check_objectives(tuple(vars(settings).values()))


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
