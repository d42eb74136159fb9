"""What a stage is made of, as data: its objectives and its optimizer."""

import dataclasses
import math

from kdkit import losses
from kdkit import objectives
from kdkit.backends import keras_is_loaded
from kdkit.errors import UsageError
from kdkit.layer_maps import numbered_blocks
from kdkit.projections import Projection

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

    def build(self, factor: float = 1.0) -> "objectives.Objective":
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
        return objectives.Objective(
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
