"""Distilled BiLSTM: distils a transformer into one bidirectional LSTM.

Tang et al., 2019, https://arxiv.org/abs/1903.12136: the student learns the
teacher's logits by mean squared error only, on labelled text and on unlabelled
text.

    kdkit distill distilled_bilstm --task sst2 --data-dir GLUE \\
        --teacher TEACHER --word-vectors glove.6B.300d.txt --control \\
        --run-dir runs/distilled_bilstm_sst2

Expected: 90.7 on SST-2's test set, from BERT-large (LightPAFF's table 1), with
10.1 M parameters, 7.6 times as fast as BERT-base (TinyBERT's table 3).
Measured, without word vectors: 83.6 on SST-2's dev set after 3 epochs, 81.8
without a teacher; the teacher has 88.3 (docs/measured/results.md).
More text: `--unlabeled FILE`.
Smoke run: `kdkit distill distilled_bilstm --smoke --run-dir RUN`, under a
minute.

Departures from the paper: docs/fidelity.md.
"""

from kdkit.distillation.objective import Objective
from kdkit.losses import LogitMSE
from kdkit.recipes.recipe import Recipe
from kdkit.recipes.stages import Stage

RECIPE = Recipe(
    name="distilled_bilstm",
    title="a BiLSTM that learns logits by their squared error",
    paper="Tang et al., 2019, https://arxiv.org/abs/1903.12136",
    stages=(
        Stage(
            name="prediction_layer",
            epochs=10,
            learning_rate=1e-3,
            objectives=(Objective(LogitMSE()),),
        ),
    ),
    student="distilled_bilstm_en_uncased",
)
