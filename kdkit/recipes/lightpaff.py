"""LightPAFF: distillation in pretraining and again in fine-tuning.

Song et al., 2020, https://arxiv.org/abs/2004.12817, equations 1, 2 and 5:
1 − λ times the log-likelihood of the masked token or the label, plus λ times
the divergence from the teacher's distribution. The student starts from random
weights. The paper has four steps: pretrain the teacher, fine-tune it, and the
two stages of this recipe.

    kdkit pretrain --corpus TEXT --model ENCODER --run-dir runs/pretrained
    kdkit train-teacher --task sst2 --data-dir GLUE \\
        --model runs/pretrained --run-dir runs/teacher
    kdkit distill lightpaff --task sst2 --data-dir GLUE \\
        --teacher runs/teacher --corpus TEXT --run-dir runs/lightpaff

Or all four in one run:

    kdkit distill lightpaff --task sst2 --data-dir GLUE --encoder ENCODER \\
        --corpus TEXT --run-dir runs/lightpaff

λ is 1.0 in pretraining, as the paper recommends. Its study (section 6.3) is

    kdkit sweep lightpaff --corpus TEXT --teacher runs/pretrained \\
        --over soft_label_weight=0.0,0.2,0.4,0.6,0.8,1.0 \\
        --curves lambda.svg --run-dir runs/lambda

In fine-tuning the paper chooses λ on dev; `kdkit sweep lightpaff --paper` does
the same. With `--unlabeled FILE` the run is table 11's row "with". Add
`--student ENCODER --stages fine_tuning` for the control in appendix 4, a
teacher that teaches itself.

Expected: 92.9 on SST-2's test set with 3 blocks of 512, from a teacher of 93.5
and with a million unlabelled examples; 91.3 without them (tables 1 and 11).
Measured, with 3 blocks of 256 and a million word pieces of text, from a teacher
of 88.8 on dev: 80.6, and 81.8 with 10,000 reviews (docs/measured/results.md).
Smoke run: `kdkit distill lightpaff --smoke --run-dir RUN`, under a minute.

For GPT-2 (equations 3 and 6) both stages are on running text. The first stage
is on any text. The second one is on the task's text, with a teacher trained on
that text, and starts from the first stage's student. The paper's λ in
pretraining is 0.4.

    kdkit pretrain --recipe lightpaff --teacher runs/gpt2 --corpus TEXT \\
        --run-dir runs/general
    kdkit pretrain --recipe lightpaff --stage fine_tuning \\
        --teacher runs/gpt2_ptb --model runs/general \\
        --corpus ptb.train.txt --held-out ptb.valid.txt --one-document \\
        --detokenizer ptb --run-dir runs/lightpaff_ptb

Or all four steps in one run:

    kdkit distill lightpaff --model gpt2 --decoder gpt2_medium_en \\
        --vocabulary-size 50257 --corpus TEXT --task-text ptb.train.txt \\
        --task-held-out ptb.valid.txt --one-document --detokenizer ptb \\
        --run-dir runs/lightpaff_ptb

Smoke run: `kdkit distill lightpaff --model gpt2 --smoke --run-dir RUN`.

Expected: perplexity over words of 22.8 on Penn Treebank and 18.8 on WikiText-2
with 4 blocks of 768, from a teacher of 17.0 and 15.5 (table 3). Measured on
Penn Treebank, with 3 blocks of 96 and a million tokens of general text, from a
teacher of 168.0: 302.8, and 370.9 without KD (docs/measured/results.md).

For MASS (equations 4 and 7) the first stage is on sentences in one or several
languages and the second on pairs. λ is 0.7 in pretraining.

    kdkit pretrain --corpus train.en train.de --languages en de \\
        --student mass_6_layer --vocabulary-size 32000 --run-dir runs/mass
    kdkit pretrain --pairs train.en train.de --languages en de \\
        --model runs/mass --run-dir runs/mass_en_de
    kdkit pretrain --recipe lightpaff --teacher runs/mass \\
        --corpus train.en train.de --languages en de --run-dir runs/general
    kdkit pretrain --recipe lightpaff --stage fine_tuning \\
        --teacher runs/mass_en_de --model runs/general \\
        --pairs train.en train.de --languages en de --run-dir runs/en_de

Or all four steps in one run:

    kdkit distill lightpaff --model mass --decoder mass_6_layer \\
        --vocabulary-size 32000 --corpus train.en train.de --languages en de \\
        --pairs train.en train.de --run-dir runs/lightpaff_en_de

For sequence-level distillation (Kim and Rush, 2016,
https://arxiv.org/abs/1606.07947) the teacher's own translations are the
targets. They are pairs like any others:

    kdkit generate runs/mass_en_de --sampler beam --input train.en \\
        --output written.de --kept-input written.en

Smoke run: `kdkit distill lightpaff --model mass --smoke --run-dir RUN`.

Expected: BLEU of 32.2 on WMT16's English to German with a hundred thousand
pairs, from a teacher of 33.1 (table 5). Measured on Multi30k, with 3+2 blocks
of 112, from a teacher of 35.4: 31.9, and 29.8 without KD
(docs/measured/results.md).

Where the paper is silent: docs/fidelity.md.
"""

import dataclasses

from kdkit.distillation.objective import Objective
from kdkit.losses import LogitKLDivergence
from kdkit.recipes.recipe import Recipe
from kdkit.recipes.stages import Stage

KL = Objective(LogitKLDivergence())

# In positions; with GPT-2's vocabulary 51 MB of logits. A smaller chunk is
# slower, because the gradient of the embeddings is added up once per chunk.
CHUNK_SIZE = 256

PAPER = "Song et al., 2020, https://arxiv.org/abs/2004.12817"


def _on_text(title, student, pretraining, fine_tuning):
    """Returns the recipe for models with both stages on text."""
    same = {"data": "corpus", "objectives": (KL,)}
    return Recipe(
        name="lightpaff",
        title=title,
        paper=PAPER,
        stages=(
            Stage(
                name="pretraining",
                learning_rate=5e-4,
                warmup_fraction=0.05,
                **same,
                **pretraining,
            ),
            Stage(
                name="fine_tuning",
                soft_label_weight=0.5,
                **same,
                **fine_tuning,
            ),
        ),
        student=student,
    )


GPT2 = _on_text(
    "soft labels of the next token, on any text, then on the task's",
    "lightpaff_gpt2_4_layer_en",
    # λ and the batch size are from section 4.1.
    {"epochs": 1, "soft_label_weight": 0.4, "chunk_size": CHUNK_SIZE},
    {
        "epochs": 3,
        "learning_rate": 1e-4,
        "batch_size": 8,
        "chunk_size": CHUNK_SIZE,
    },
)
# The paper has GPT-2 alone. Its method applies to every decoder.
LLAMA3 = dataclasses.replace(GPT2, student="lightpaff_llama3_4_layer_en")
QWEN3 = dataclasses.replace(GPT2, student="lightpaff_qwen3_4_layer_en")
MASS = _on_text(
    "soft labels of a hidden span's tokens, then of a translation's",
    "lightpaff_mass_6_4_layer",
    {"epochs": 3, "soft_label_weight": 0.7},  # λ, section 5.1
    {"epochs": 10, "learning_rate": 5e-4},
)

RECIPE = Recipe(
    name="lightpaff",
    title="soft labels of masked tokens, then of the task",
    paper=PAPER,
    stages=(
        Stage(
            name="pretraining",
            data="corpus",
            epochs=3,
            learning_rate=5e-4,
            warmup_fraction=0.05,
            soft_label_weight=1.0,  # λ, section 3.1
            objectives=(KL,),
        ),
        Stage(
            name="fine_tuning",
            epochs=4,
            learning_rate=5e-5,
            soft_label_weight=0.5,
            objectives=(KL,),
        ),
    ),
    student="lightpaff_bert_3_layer_en_uncased",
    for_families={
        "gpt2": GPT2,
        "llama3": LLAMA3,
        "qwen3": QWEN3,
        "mass": MASS,
    },
)
