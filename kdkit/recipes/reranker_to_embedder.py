"""A cross-encoder's scores train a sentence encoder to find documents.

A cross-encoder (a reranker) reads a query and a document together: it ranks
well, and needs a forward pass for each pair. A sentence encoder reads each text
once, and a score is the product of two vectors. The student learns the margins
between the cross-encoder's scores of a query's candidates (Margin-MSE,
Hofstätter et al., 2020, https://arxiv.org/abs/2010.02666), and the
distribution over them (KL divergence).

    kdkit distill reranker_to_embedder --candidates train.tsv \\
        --teacher runs/cross_encoder --student all-MiniLM-L6-v2 \\
        --num-layers 3 --run-dir runs/retriever

The candidates are a table with the columns `query`, `positive`, `negative`,
and further ones `negative_2`..., or JSON lines. The teacher is a classifier of
pairs with one score, such as a run of `kdkit train-teacher --task stsb`, or two
classes. Each pair is scored once. The scores are cached in RUN/teacher_cache.

`--parity margin_mse` uses only the loss of the paper.

Smoke run: `kdkit distill reranker_to_embedder --smoke --run-dir RUN`.

Departures from the paper: docs/fidelity.md.
"""

from kdkit.distillation.objective import Objective
from kdkit.losses import LogitKLDivergence, MarginMSE
from kdkit.recipes.recipe import CopiedBlocks, Recipe
from kdkit.recipes.stages import Stage

MARGINS = Objective(MarginMSE())
LISTS = Objective(LogitKLDivergence())


def _stages(*objectives):
    return (
        Stage(
            name="distillation",
            data="candidates",
            epochs=1,
            learning_rate=5e-5,
            schedule="cosine",
            batch_size=32,
            objectives=objectives,
        ),
    )


RECIPE = Recipe(
    name="reranker_to_embedder",
    title="the scores of a cross-encoder, as products of vectors",
    paper="Hofstätter et al., 2020, https://arxiv.org/abs/2010.02666",
    stages=_stages(MARGINS, LISTS),
    student=CopiedBlocks("teacher", "spread"),
    parities={"margin_mse": {"stages": _stages(MARGINS)}},
)
