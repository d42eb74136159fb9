"""The `Recipe`: a paper as data."""

import dataclasses
from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from kdkit.errors import UsageError, unknown
from kdkit.losses import LogitKLDivergence, SoftCrossEntropy, get_loss
from kdkit.recipes.stages import EMBEDDING_DATA, Stage
from kdkit.settings import STRICT, Every, Positive

if TYPE_CHECKING:  # tasks import packages that stages do not need
    from kdkit.tasks import Task

GENERAL = "general_distillation"
# The losses between distributions over all classes.
SOFT_LABELS = (SoftCrossEntropy, LogitKLDivergence)


@dataclasses.dataclass(frozen=True)
class CopiedBlocks:
    """A student that consists of copied blocks of an encoder.

    Args:
        source: string. `"pretrained"` for the encoder that the teacher was
            fine-tuned from, or `"teacher"`.
        rule: string. Which blocks to copy, by the layer map `"spread"`,
            `"uniform"` or `"bottom"`.
        share: float. The default share of the encoder's blocks. Defaults to
            `0.5`.
    """

    source: str
    rule: str
    share: float = 0.5

    def __str__(self):
        encoder = {
            "pretrained": "the pretrained encoder",
            "teacher": "the teacher",
        }[self.source]
        if self.share == 1:
            return f"all blocks of {encoder}"
        return f"blocks of {encoder} ({self.rule})"


@dataclass(frozen=True, config=STRICT)
class TokenVectors:
    """A student without layers: a table with one vector for each token.

    The teacher's vectors of the single tokens are the start. They are reduced
    to their principal components, and weighted by how rare the tokens are in
    the texts, see `kdkit.models.set_token_vectors`.

    Args:
        dimensions: int. The width of the vectors. At most the teacher's width,
            which is used if it is smaller.
        sif: float or `None`. The SIF weight of a token with the share p of the
            texts' tokens is sif / (sif + p). `None` for equal weights.

    Raises:
        pydantic.ValidationError: (a `ValueError`) for wrong fields.
    """

    dimensions: Every = 240
    sif: Positive | None = 1e-3

    def __str__(self):
        return f"a table of token vectors ({self.dimensions} wide)"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A published way to make a model small.

    Args:
        name: string. The name on the command line.
        title: string. One line: what the recipe does.
        paper: string. The paper's authors, year and URL.
        stages: tuple of `Stage`, in order.
        student: string, `CopiedBlocks` or `TokenVectors`. The default student:
            a preset, the blocks to copy, or a table of token vectors.
        epochs_by_task: dict from the name of a stage to a dict from task to
            epochs, if the paper's epochs differ by task.
        prerequisites: dict from a name to a tuple of `Stage` to train before
            the recipe, once for all tasks. `"general_distillation"`, on
            running text, trains the student that the stages start from.
        parities: dict from the name of a variant to the recipe's fields that
            differ in it, such as `{"paper": {"stages": ...}}`.
        for_families: dict from the name of a decoder family, or `"mass"`, to
            the recipe for these models. All its stages are on text, and
            `kdkit pretrain --recipe` runs one of them at a time.
        mask_share_of: string. Whether the share of masked tokens applies to
            each row of running text or to the batch, as in
            `kdkit.data.Masking`.
    """

    name: str
    title: str
    paper: str
    stages: tuple[Stage, ...]
    student: str | CopiedBlocks | TokenVectors
    epochs_by_task: dict[str, dict[str, int]] = dataclasses.field(
        default_factory=dict
    )
    prerequisites: dict[str, tuple[Stage, ...]] = dataclasses.field(
        default_factory=dict
    )
    parities: dict[str, dict] = dataclasses.field(default_factory=dict)
    for_families: dict[str, "Recipe"] = dataclasses.field(default_factory=dict)
    mask_share_of: str = "row"

    @property
    def trains_embedder(self) -> bool:
        """Whether the recipe trains a sentence encoder."""
        return any(stage.data in EMBEDDING_DATA for stage in self.stages)

    def variant(self, parity: str | None = None) -> "Recipe":
        """Returns a variant of the recipe.

        Args:
            parity: string, a key of `parities`, or `None` for the recipe
                itself.

        Raises:
            UsageError: (a `ValueError`) if the recipe has no such variant.
        """
        if parity is None:
            return self
        if parity not in self.parities:
            raise unknown(f"parity of {self.name}", parity, self.parities)
        return dataclasses.replace(
            self, **{"parities": {}, **self.parities[parity]}
        )

    def stages_for(self, task: "Task", parity: str | None = None):
        """Returns the stages for a task.

        The epochs are the paper's for this task. Soft labels over all classes
        do not fit every kind of task and are replaced: for regression, whose
        only logit is the score, by the squared error between scores; for
        multi-label tasks, by soft labels per class. For tasks with a label per
        position, states and attention are still compared at all positions.

        Args:
            task: `kdkit.tasks.Task`.
            parity: string or `None`. A variant, a key of `parities`.

        Raises:
            UsageError: if the recipe has no such variant.
        """
        return tuple(
            dataclasses.replace(
                stage,
                epochs=self.epochs_by_task.get(stage.name, {}).get(
                    task.name, stage.epochs
                ),
                objectives=tuple(
                    for_kind(objective, task.kind)
                    if stage.data == "task"
                    else objective
                    for objective in stage.objectives
                ),
            )
            for stage in self.variant(parity).stages
        )

    def stages_on_text(self, parity: str | None = None) -> tuple[Stage, ...]:
        """Returns the stages on running text, which do not depend on a task.

        Args:
            parity: string or `None`. A variant, a key of `parities`.

        Raises:
            UsageError: if there are no such stages, or no such variant.
        """
        recipe = self.variant(parity)
        stages = recipe.prerequisites.get(GENERAL) or tuple(
            stage for stage in recipe.stages if stage.data == "corpus"
        )
        if not stages:
            raise UsageError(
                f"Recipe {self.name!r} has no stage on running text."
            )
        return stages


def for_kind(objective, kind):
    """Returns the objective for tasks of a kind."""
    if objective.tap != "logits":
        return dataclasses.replace(
            objective, use_sample_weight=not kind.has_label_per_token
        )
    if kind.soft_label_loss is None or not isinstance(
        objective.loss, SOFT_LABELS
    ):
        return objective
    settings = {"name": kind.soft_label_loss}
    if kind.soft_label_loss == "soft_binary_cross_entropy":
        settings["temperature"] = objective.loss.temperature
        settings["scale_by_temperature_squared"] = getattr(
            objective.loss, "scale_by_temperature_squared", True
        )
    loss = get_loss(settings)
    return dataclasses.replace(objective, name=loss.name, loss=loss)
