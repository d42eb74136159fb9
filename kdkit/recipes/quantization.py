"""The stage of quantisation-aware distillation, after a recipe's stages.

The student of a recipe, trained in full precision, continues with the rounding
of its exported file. Its targets are the full-precision teacher's soft labels
and the states and attention that the recipe itself compares, as TernaryBERT
(Zhang et al., 2020, https://arxiv.org/abs/2009.12812, section 3.2) compares
hidden states and attention. States that are compared through a projection are
left out, because the student is saved without it; and a student that never
learned the teacher's attention would have little else to learn.

    kdkit distill pkd --task mrpc --data-dir GLUE --teacher TEACHER \\
        --quantize static_int8 --run-dir runs/pkd_mrpc_int8
"""

from kdkit.distillation.objective import Objective
from kdkit.losses import SoftCrossEntropy
from kdkit.recipes.recipe import for_kind
from kdkit.recipes.stages import Stage

NAME = "quantization"
SOFT_LABELS = Objective(SoftCrossEntropy())


def quantization_stage(
    precision: str, task, stages: tuple[Stage, ...]
) -> Stage:
    """Returns the stage that trains a student with its file's rounding."""
    objectives = ()
    if any(stage.objectives for stage in stages):
        states = {
            objective.name: objective
            for stage in stages
            for objective in stage.objectives
            if stage.data == "task"
            and objective.tap != "logits"
            and objective.projection is None
        }
        objectives = (for_kind(SOFT_LABELS, task.kind), *states.values())
    return Stage(
        name=NAME,
        epochs=3,
        learning_rate=2e-5,
        objectives=objectives,
        hard_label_weight=0.0 if objectives else 1.0,
        quantize=precision,
    )
