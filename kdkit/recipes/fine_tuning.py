"""Fine-tuning on labels: for teachers, and for students without a teacher.

Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 4.1: batch size
32, learning rate 5e-5, 3e-5 or 2e-5, 3 epochs; the best epoch on dev is
saved.

    kdkit train-teacher --task sst2 --data-dir GLUE \\
        --model bert_base_en_uncased --run-dir runs/teacher_sst2

As a recipe it is the row "FT" in the papers' tables: blocks of the pretrained
encoder, trained on the labels only. The teacher is only a reference
for the student's score; the student does not learn from it.

    kdkit distill fine_tuning --task sst2 --data-dir GLUE --teacher TEACHER \\
        --num-layers 3 --run-dir runs/fine_tuning_sst2

Expected: 90.7 with 6 of 12 blocks and 86.4 with 3 on SST-2's test set (Sun et
al., 2019, https://arxiv.org/abs/1908.09355, table 1: 4 epochs).
Measured: 88.1 with 3 of 6 blocks on SST-2's dev set after 2 epochs; the
teacher has 88.3 (docs/measured/results.md).
Smoke run: `kdkit distill fine_tuning --smoke --run-dir RUN`, under a minute.
"""

from kdkit.recipes.recipe import CopiedBlocks, Recipe
from kdkit.recipes.stages import Stage

# The stages for a teacher.
STAGES = (
    Stage(
        name="fine_tuning",
        epochs=3,
        learning_rate=3e-5,
        hard_label_weight=1.0,
    ),
)

RECIPE = Recipe(
    name="fine_tuning",
    title="labels alone, no distillation: the baseline for the others",
    paper="Devlin et al., 2018, https://arxiv.org/abs/1810.04805",
    stages=(
        Stage(
            name="fine_tuning",
            epochs=4,
            learning_rate=5e-5,
            hard_label_weight=1.0,
        ),
    ),
    student=CopiedBlocks("pretrained", "spread"),
)
