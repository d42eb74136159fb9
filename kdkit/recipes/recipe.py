"""What a recipe is: a paper as data."""

import dataclasses
from typing import TYPE_CHECKING

from kdkit.errors import UsageError
from kdkit.losses import LogitKLDivergence
from kdkit.losses import SoftCrossEntropy
from kdkit.losses import get_loss
from kdkit.recipes.stages import Stage

if TYPE_CHECKING:  # tasks need packages that stages run without
    from kdkit.tasks import Task

GENERAL = "general_distillation"
# They compare distributions over all classes.
SOFT_LABELS = (SoftCrossEntropy, LogitKLDivergence)


@dataclasses.dataclass(frozen=True)
class CopiedBlocks:
    """A student made of an encoder's own blocks.

    It has half of the encoder's blocks unless another number is asked for.

    Args:
        source: string. `"pretrained"` for the encoder that the teacher was
            fine-tuned from, or `"teacher"`.
        rule: string. Which blocks, see `kdkit.models.choose_blocks`.
    """

    source: str
    rule: str

    def __str__(self):
        encoder = {
            "pretrained": "the pretrained encoder",
            "teacher": "the teacher",
        }[self.source]
        return f"blocks of {encoder} ({self.rule})"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A published way to make a model small.

    Args:
        name: string. The name on the command line.
        title: string. One line: what it does.
        paper: string. Authors, year and address of the paper.
        stages: tuple of `Stage`, in order.
        student: string or `CopiedBlocks`. The preset of the student, or what
            it is made of, unless another is given.
        epochs_by_task: dict from the name of a stage to a dict from task to
            epochs, where the paper's differ by task.
        prerequisites: dict from a name to a tuple of `Stage` that are trained
            before, once for all tasks: `"general_distillation"`, on running
            text, makes the student that the stages start from.
        parities: dict from the name of a variant to the fields of the recipe
            that differ in it, such as `{"paper": {"stages": ...}}`.
        for_families: dict from the name of a decoder's family, or `"mass"`, to
            the recipe for these models. Its stages are all on text, each on its
            own: `kdkit pretrain --recipe` runs one of them.
        mask_share_of: string. What the share of masked tokens is of on running
            text, as in `kdkit.data.Masking`.
    """

    name: str
    title: str
    paper: str
    stages: tuple[Stage, ...]
    student: str | CopiedBlocks
    epochs_by_task: dict[str, dict[str, int]] = dataclasses.field(
        default_factory=dict
    )
    prerequisites: dict[str, tuple[Stage, ...]] = dataclasses.field(
        default_factory=dict
    )
    parities: dict[str, dict] = dataclasses.field(default_factory=dict)
    for_families: dict[str, "Recipe"] = dataclasses.field(default_factory=dict)
    mask_share_of: str = "row"

    def variant(self, parity: str | None = None) -> "Recipe":
        """Returns the recipe in a variant.

        Args:
            parity: string, a key of `parities`, or `None` for the recipe
                itself.

        Raises:
            UsageError: (a `ValueError`) if the recipe has no such variant.
        """
        if parity is None:
            return self
        if parity not in self.parities:
            raise UsageError(
                f"Recipe {self.name!r} has no parity {parity!r}. Expected one "
                f"of {sorted(self.parities) or 'none'}, or omit it."
            )
        return dataclasses.replace(
            self, **{"parities": {}, **self.parities[parity]}
        )

    def stages_for(self, task: "Task", parity: str | None = None):
        """Returns the stages as they are for a task.

        The epochs are the paper's for it. Where soft labels over all classes
        mean nothing, they become what the task's kind has for them: for
        regression, whose single logit is the score, the squared error between
        scores; for multi-label tasks, soft labels of each class separately.
        Where positions have labels, states and attention are still compared
        everywhere.

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
                    _for_kind(objective, task.kind)
                    if stage.data == "task"
                    else objective
                    for objective in stage.objectives
                ),
            )
            for stage in self.variant(parity).stages
        )

    def stages_on_text(self, parity: str | None = None) -> tuple[Stage, ...]:
        """Returns the stages on running text, which know no task.

        Args:
            parity: string or `None`. A variant, a key of `parities`.

        Raises:
            UsageError: if there are none, or no such variant.
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


def _for_kind(objective, kind):
    """The objective as it is for tasks of a kind."""
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
