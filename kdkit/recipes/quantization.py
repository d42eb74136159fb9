"""The stage of quantisation-aware distillation, after a recipe's stages.

The student of a recipe, trained in full precision, continues with the rounding
of its exported file. It learns from the full-precision teacher as in
TernaryBERT (Zhang et al., 2020, https://arxiv.org/abs/2009.12812, section 3.2):
soft labels, hidden states and attention, each with weight 1.

    kdkit distill pkd --task mrpc --data-dir GLUE --teacher TEACHER \\
        --quantize static_int8 --run-dir runs/pkd_mrpc_int8
"""

from kdkit.distillation.objective import Objective
from kdkit.losses import AttentionMSE
from kdkit.losses import HiddenStateMSE
from kdkit.losses import SoftCrossEntropy
from kdkit.recipes.recipe import for_kind
from kdkit.recipes.stages import Stage

NAME = "quantization"
SOFT_LABELS = Objective(SoftCrossEntropy())
STATES = (
    Objective(HiddenStateMSE(), tap="hidden_states", layer_map="uniform"),
    Objective(AttentionMSE(), tap="attention_logits", layer_map="uniform"),
)


def quantization_stage(
    precision: str, task, compares_states: bool, learns_from_teacher: bool
) -> Stage:
    """Returns the stage that trains a student with its file's rounding.

    Args:
        precision: string, as in `kdkit.quantization.FakeQuantization`.
        task: `kdkit.tasks.Task`.
        compares_states: bool. Whether hidden states and attention are compared
            too, because teacher and student have the same width and heads.
        learns_from_teacher: bool. Whether the recipe's stages have objectives.
            Otherwise the student learns from labels.
    """
    objectives = ()
    if learns_from_teacher:
        objectives = (SOFT_LABELS, *(STATES if compares_states else ()))
    return Stage(
        name=NAME,
        epochs=3,
        learning_rate=2e-5,
        objectives=tuple(for_kind(one, task.kind) for one in objectives),
        hard_label_weight=0.0 if objectives else 1.0,
        quantize=precision,
    )
