"""BERT-small: a small BERT pretrained without a teacher, then fine-tuned.

The row "BERT-small" in TinyBERT's table 2 (Jiao et al., 2019,
https://arxiv.org/abs/1909.10351): a student's size and a student's training
data, without distillation. The teacher is only a reference for the student's
score; the student does not learn from it.

    kdkit distill bert_small --task sst2 --data-dir GLUE --teacher TEACHER \\
        --corpus TEXT --run-dir runs/bert_small_sst2

Expected: 87.6 on SST-2's test set with 4 blocks of 312 pretrained on all of
English Wikipedia (TinyBERT's slides, table 2).
Measured: 79.8 on SST-2's dev set after one pass over 67,000 phrases and 2,700
reviews and 2 epochs; the teacher has 88.3 (docs/measured/results.md).
Smoke run: `kdkit distill bert_small --smoke --run-dir RUN`, under a minute.
"""

from kdkit.recipes import fine_tuning, pretraining
from kdkit.recipes.recipe import Recipe

RECIPE = Recipe(
    name="bert_small",
    title="masked-language modelling, then labels; no distillation",
    paper="Devlin et al., 2018, https://arxiv.org/abs/1810.04805",
    stages=(
        *pretraining.FROM_SCRATCH,
        *fine_tuning.RECIPE.stages,
    ),
    student="tinybert_4_layer_en_uncased",
)
