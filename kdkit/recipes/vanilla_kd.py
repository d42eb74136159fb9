"""Vanilla knowledge distillation: labels and soft labels.

Hinton et al., 2015, https://arxiv.org/abs/1503.02531, as Sun et al., 2019,
https://arxiv.org/abs/1908.09355, use it for comparison: equations 1 to 5. The
student starts from blocks of the pretrained encoder, spread over its depth; the
paper's are the first ones (`--parity paper`).

    kdkit distill vanilla_kd --task sst2 --data-dir GLUE --teacher TEACHER \\
        --num-layers 3 --run-dir runs/vanilla_kd_sst2

Expected: 91.5 with 6 of 12 blocks and 86.9 with 3 on SST-2's test set, from a
teacher of 94.3 (PKD's table 1).
Measured: 87.5 with 3 of 6 blocks on SST-2's dev set after 2 epochs, from a
teacher of 88.3 (docs/measured/results.md).
Smoke run: `kdkit distill vanilla_kd --smoke --run-dir RUN`, under a minute.

Departures from the papers and from their code: docs/fidelity.md.
"""

from kdkit.distillation.objective import Objective
from kdkit.losses import LogitKLDivergence, SoftCrossEntropy
from kdkit.recipes.recipe import CopiedBlocks, Recipe
from kdkit.recipes.stages import Stage

# From the grid in PKD's section 4.2: the authors' choice for SST-2.
TEMPERATURE = 10.0
SOFT_LABEL_WEIGHT = 0.5
LEARNING_RATE = 5e-5
EPOCHS = 4


def _stages(loss):
    return (
        Stage(
            name="fine_tuning",
            epochs=EPOCHS,
            learning_rate=LEARNING_RATE,
            soft_label_weight=SOFT_LABEL_WEIGHT,
            objectives=(Objective(loss),),
        ),
    )


# Times T², as Hinton et al. recommend and PKD's authors' code does. Without it,
# soft labels at T = 10 have a hundredth of the labels' gradient.
STAGES = _stages(
    SoftCrossEntropy(TEMPERATURE, scale_by_temperature_squared=True)
)
EQUATION = _stages(SoftCrossEntropy(TEMPERATURE))
CODE_UNITS = _stages(LogitKLDivergence(TEMPERATURE, parity="pkd"))
FIRST_BLOCKS = CopiedBlocks("pretrained", "bottom")

RECIPE = Recipe(
    name="vanilla_kd",
    title="labels and soft labels at a temperature",
    paper="Hinton et al., 2015, https://arxiv.org/abs/1503.02531",
    stages=STAGES,
    # They learn a small table in fewer updates than the first blocks do
    # (docs/measured/small_tables.md).
    student=CopiedBlocks("pretrained", "spread"),
    parities={
        "paper": {"stages": EQUATION, "student": FIRST_BLOCKS},
        "pkd": {"stages": CODE_UNITS, "student": FIRST_BLOCKS},
    },
)
