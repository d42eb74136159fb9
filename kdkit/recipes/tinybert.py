"""TinyBERT: general distillation, augmentation, task distillation.

Jiao et al., 2019, https://arxiv.org/abs/1909.10351, sections 4 and 5: the
student learns embeddings, hidden states and attention from the pretrained
encoder on running text. Then, on the task's examples and their augmented
copies, it learns the same from the fine-tuned teacher (intermediate layers),
and last the teacher's soft labels (prediction layer).

    kdkit distill tinybert --task sst2 --data-dir GLUE --teacher TEACHER \\
        --general runs/general --corpus TEXT --augment sst2_augmented.tsv \\
        --augment-model MASKED_LM --augment-vectors GLOVE \\
        --run-dir runs/tinybert_sst2

Without `--general` the student starts from random weights. Without `--augment`
it is trained on the original examples only.

Expected: 92.6 on SST-2's test set from a teacher of 93.4 (the slides' table
2). Measured on two cores: 86.7 on its dev set from a teacher of 88.8, and 82.0
without a teacher (docs/measured/results.md).
Smoke run: `kdkit distill tinybert --smoke --run-dir RUN`, under a minute.

`--parity tinybert` follows the authors' code: losses that count padding, on
batches padded to the full length, and updates by BERT's own optimizer, which
clips each gradient separately. `--parity paper` follows equations 7 to 9.
Departures from the paper and from its code: docs/fidelity.md.
"""

import dataclasses

from kdkit.distillation.objective import Objective, Projection
from kdkit.losses import (
    AttentionMSE,
    EmbeddingMSE,
    HiddenStateMSE,
    SoftCrossEntropy,
)
from kdkit.recipes.recipe import GENERAL, Recipe
from kdkit.recipes.stages import OptimizerSettings, Stage

ATTENTION = Objective(
    AttentionMSE(), tap="attention_logits", layer_map="uniform"
)
# One projection with bias for embeddings and hidden states, as in the code.
HIDDEN_STATES = Objective(
    HiddenStateMSE(),
    tap="hidden_states",
    layer_map="uniform",
    projection="shared",
)
# The first pair of `HIDDEN_STATES` only, for ablations without hidden states.
EMBEDDINGS = Objective(
    EmbeddingMSE(), tap="embedding_output", projection="shared"
)
SOFT_LABELS = Objective(SoftCrossEntropy(temperature=1.0))
WITHOUT_BIAS = Projection("shared", use_bias=False)


ADAM_W = OptimizerSettings()

# Augmented copies of each text: in the authors' code by task, in the paper 20.
CODE_COPIES = {"cola": 30, "mrpc": 30, "rte": 30, "stsb": 30} | {
    "mnli": 10,
    "qqp": 10,
}
COPIES = 20
# BERT's own optimizer, as in the authors' code. `[PAD]` has no gradient.
BERT_ADAM = OptimizerSettings(bias_correction=False, clipnorm=1.0)
BERT_ADAM_ON_TASK = dataclasses.replace(BERT_ADAM, trains_padding=False)


def copies_for(task: str, parity: str | None = None) -> int:
    """Returns the number of augmented copies of each text.

    >>> copies_for("cola"), copies_for("cola", parity="tinybert")
    (20, 30)
    """
    return CODE_COPIES.get(task, COPIES) if parity else COPIES


def _stages(intermediate, prediction, optimizer=ADAM_W):
    return (
        Stage(
            name="intermediate_layer",
            epochs=20,
            learning_rate=5e-5,
            objectives=intermediate,
            schedule="constant",
            keep_best=False,
            optimizer=optimizer,
        ),
        Stage(
            name="prediction_layer",
            epochs=3,
            learning_rate=3e-5,
            objectives=prediction,
            schedule="linear",
            warmup_fraction=0.1,
            optimizer=optimizer,
        ),
    )


def _general(objectives, optimizer=ADAM_W):
    """Returns general distillation: the same objectives on running text."""
    stage = Stage(
        name=GENERAL,
        data="corpus",
        epochs=3,
        learning_rate=5e-5,
        objectives=objectives,
        schedule="linear",
        warmup_fraction=0.1,
        keep_best=False,
        optimizer=optimizer,
    )
    return {GENERAL: (stage,)}


# Equations 7 to 9: W_e and W_h are separate and have no bias.
PAPER_INTERMEDIATE = (
    ATTENTION,
    dataclasses.replace(EMBEDDINGS, projection=WITHOUT_BIAS),
    dataclasses.replace(
        HIDDEN_STATES, projection=WITHOUT_BIAS, include_embeddings=False
    ),
)
PAPER = _stages(PAPER_INTERMEDIATE, (SOFT_LABELS,))


# Padding counts, so examples are padded to the full length. The loss on logits
# averages over classes.
CODE_INTERMEDIATE = (
    dataclasses.replace(ATTENTION, loss=AttentionMSE(parity="tinybert")),
    dataclasses.replace(HIDDEN_STATES, loss=HiddenStateMSE(parity="tinybert")),
)
CODE_UNITS = _stages(
    CODE_INTERMEDIATE,
    (Objective(SoftCrossEntropy(temperature=1.0, parity="tinybert")),),
    BERT_ADAM_ON_TASK,
)

RECIPE = Recipe(
    name="tinybert",
    title="attention, hidden states and embeddings, then soft labels",
    paper="Jiao et al., 2019, https://arxiv.org/abs/1909.10351",
    stages=_stages((ATTENTION, HIDDEN_STATES), (SOFT_LABELS,)),
    student="tinybert_4_layer_en_uncased",
    epochs_by_task={
        "intermediate_layer": {"mnli": 10, "qqp": 10, "qnli": 10, "cola": 50}
    },
    prerequisites=_general((ATTENTION, HIDDEN_STATES)),
    parities={
        "paper": {
            "stages": PAPER,
            "prerequisites": _general(PAPER_INTERMEDIATE),
        },
        "tinybert": {
            "stages": CODE_UNITS,
            "prerequisites": _general(CODE_INTERMEDIATE, BERT_ADAM),
        },
    },
)
