"""Static embedding: a table of token vectors learns a sentence encoder's.

The student is a table with one vector for each token: the vector of a text is
the mean of its tokens' vectors. There is no transformer to run.

    kdkit distill static_embedding --texts captions.txt reviews.txt \\
        --teacher all-MiniLM-L6-v2 --task stsb --data-dir GLUE \\
        --run-dir runs/static

The table starts from the teacher's vector of each token alone, computed in one
pass over the vocabulary, reduced to 240 principal components and weighted by
how rare the token is in the texts (SIF: Arora, Liang and Ma, 2017,
https://openreview.net/forum?id=SyK00v5xx). Then the student's vector of a text
moves towards the teacher's vector of the same text, reduced by the same
components (Reimers and Gurevych, 2020, https://arxiv.org/abs/2004.09813).
Tokens that do not occur in the texts keep their start.

`--control` also measures the start. `--set student.dimensions=128` makes a
smaller table.

Smoke run: `kdkit distill static_embedding --smoke --run-dir RUN`.

Departures from the papers: docs/fidelity.md.
"""

from kdkit.recipes.recipe import Recipe, TokenVectors
from kdkit.recipes.sentence_embedding import COSINE
from kdkit.recipes.stages import Stage

RECIPE = Recipe(
    name="static_embedding",
    title="a table of token vectors, whose mean is a sentence embedding",
    paper="Arora et al., 2017, https://openreview.net/forum?id=SyK00v5xx",
    stages=(
        Stage(
            name="distillation",
            data="texts",
            epochs=3,
            learning_rate=2e-3,
            schedule="cosine",
            # A decay would also move the tokens that no text contains.
            weight_decay=0.0,
            batch_size=64,
            objectives=(COSINE,),
        ),
    ),
    student=TokenVectors(),
)
