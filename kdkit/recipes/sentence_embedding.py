"""Sentence embeddings: a small encoder learns the vectors of a large one.

The student's vector of a text moves towards the teacher's vector of the same
text, as in Reimers and Gurevych, 2020, https://arxiv.org/abs/2004.09813, for
one language. Vectors of length 1 are compared by their cosine; `--parity mse`
is the squared error of the paper. The student starts from some of the teacher's
layers, evenly from the first to the last.

    kdkit distill sentence_embedding --texts captions.txt reviews.txt \\
        --teacher all-MiniLM-L6-v2 --num-layers 3 --task stsb \\
        --data-dir GLUE --run-dir runs/encoder

Only text is needed: a teacher's vector replaces the label. Every vector is
computed once and cached in RUN/teacher_cache. `--task` or `--dev` names scored
pairs to measure on (Spearman's correlation of the cosines); texts that occur in
them are left out of `--texts`.

`--parity layers` adds the states and the relations of TinyBERT and MiniLM.
`--parity matryoshka` also trains the first 256, 128 and 64 dimensions of each
vector to be a shorter vector (Kusupati et al., 2022,
https://arxiv.org/abs/2205.13147).
A student (`--student PRESET`) with narrower vectors learns the first principal
components of the teacher's; one with wider vectors learns the similarities of
the texts within a batch.

Smoke run: `kdkit distill sentence_embedding --smoke --run-dir RUN`.

Departures from the paper: docs/fidelity.md.
"""

import dataclasses

from kdkit.distillation.objective import Objective
from kdkit.losses import (
    HiddenStateCosine,
    HiddenStateMSE,
    Matryoshka,
    RelationKLDivergence,
    SimilarityKLDivergence,
)
from kdkit.recipes.recipe import CopiedBlocks, Recipe
from kdkit.recipes.stages import Stage

TAP = "sentence_embedding"
COSINE = Objective(HiddenStateCosine(), tap=TAP)
# Prefixes are compared with the teacher's whole vector. At the temperature 0.05
# the nearest texts of a batch dominate, and with a larger weight the whole
# vectors get worse (docs/measured/sentence_encoders.md).
PREFIXES = Objective(
    Matryoshka(
        SimilarityKLDivergence(temperature=0.2), dimensions=(256, 128, 64)
    ),
    tap=TAP,
    weight=0.25,
)
LAYERS = (
    Objective(
        HiddenStateMSE(), tap="hidden_states", name="hidden_state_mse"
    ),
    Objective(
        RelationKLDivergence(), tap="values", layer_map="final",
        name="value_relations",
    ),
)  # fmt: skip


def _stages(*objectives):
    return (
        Stage(
            name="distillation",
            data="texts",
            epochs=1,
            learning_rate=2e-4,
            schedule="cosine",
            batch_size=64,
            objectives=objectives,
        ),
    )


def compares_widths(objective: Objective) -> bool:
    """Returns whether an objective needs vectors of the teacher's width."""
    return (
        objective.tap == TAP
        and objective.projection is None
        and objective.loss.needs_same_width
    )


def keeps_lengths(objective: Objective) -> bool:
    """Returns whether an objective also learns how long vectors are."""
    return objective.tap != TAP or isinstance(objective.loss, HiddenStateMSE)


def for_other_width(
    stages: tuple[Stage, ...], is_wider: bool
) -> tuple[Stage, ...]:
    """Returns stages for a student whose vectors have another width."""

    def changed(objective):
        if is_wider and compares_widths(objective):
            loss = SimilarityKLDivergence()
            return dataclasses.replace(objective, loss=loss, name=loss.name)
        if objective.tap == "hidden_states":
            return dataclasses.replace(objective, projection="shared")
        return objective

    return tuple(
        dataclasses.replace(
            stage, objectives=tuple(map(changed, stage.objectives))
        )
        for stage in stages
    )


RECIPE = Recipe(
    name="sentence_embedding",
    title="the vectors of a sentence encoder, on any text",
    paper="Reimers and Gurevych, 2020, https://arxiv.org/abs/2004.09813",
    stages=_stages(COSINE),
    student=CopiedBlocks("teacher", "spread"),
    parities={
        "mse": {"stages": _stages(Objective(HiddenStateMSE(), tap=TAP))},
        "layers": {"stages": _stages(COSINE, *LAYERS)},
        "matryoshka": {"stages": _stages(COSINE, PREFIXES)},
    },
)
