"""Multilingual: a student maps translations to the teacher's vectors.

The teacher reads one language. The student's vectors of a text and of its
translations move towards the teacher's vector of the text, as in Reimers and
Gurevych, 2020, https://arxiv.org/abs/2004.09813. A text and its translation
then have nearly the same vector. `--parity mse` is the paper's squared error;
the default compares vectors by their cosine, as `sentence_embedding` does.

    kdkit distill multilingual --parallel train.en train.de train.fr \\
        --dev-parallel val.en val.de val.fr --teacher all-MiniLM-L6-v2 \\
        --vocabulary-size 16000 --run-dir runs/multilingual

The files have one text per line; the first is in the teacher's language. The
student has a vocabulary of its own, trained on these texts or given with
`--tokenizer`, and starts from the teacher's layers. Tokens that the teacher
also has start from its vectors, and others from the mean vector of the
teacher's pieces of the token. Teacher and student read different token ids, so
the teacher's vectors come from the cache.

Models are measured by the share of texts whose nearest text is the translation
(`bitext_accuracy`) on `--dev-parallel`, or on one in 100 lines that are held
out.

Smoke run: `kdkit distill multilingual --smoke --run-dir RUN`.

Departures from the paper: docs/fidelity.md.
"""

from kdkit.distillation.objective import Objective
from kdkit.losses import HiddenStateCosine, HiddenStateMSE
from kdkit.recipes.recipe import CopiedBlocks, Recipe
from kdkit.recipes.stages import Stage
from kdkit.taps.names import SENTENCE_EMBEDDING


def _stages(loss):
    return (
        Stage(
            name="distillation",
            data="translations",
            epochs=5,
            learning_rate=5e-4,
            schedule="cosine",
            batch_size=64,
            objectives=(Objective(loss, tap=SENTENCE_EMBEDDING),),
        ),
    )


RECIPE = Recipe(
    name="multilingual",
    title="a sentence encoder's vectors, for texts in further languages",
    paper="Reimers and Gurevych, 2020, https://arxiv.org/abs/2004.09813",
    stages=_stages(HiddenStateCosine()),
    student=CopiedBlocks("teacher", "spread", share=1.0),
    parities={"mse": {"stages": _stages(HiddenStateMSE())}},
)
