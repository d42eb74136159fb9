"""Masked language modelling: the pretraining of encoders.

Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 3.1: 15 % of the
tokens are predicted; 80 % of these are masked, 10 % are replaced and 10 % stay.
No next-sentence prediction, and new masks in every epoch (Liu et al., 2019,
https://arxiv.org/abs/1907.11692).

    kdkit pretrain --corpus TEXT --model ENCODER --run-dir runs/pretrained
    kdkit pretrain --corpus TEXT --tokenizer ENCODER \\
        --student tinybert_4_layer_en_uncased --run-dir runs/from_scratch

An encoder-decoder learns to write the hidden half of a sentence (Song et al.,
2019, https://arxiv.org/abs/1905.02450), and then to write a target text from a
source text.
"""

import dataclasses

from kdkit.recipes.stages import Stage

STAGES = (
    Stage(
        name="pretraining",
        data="corpus",
        epochs=3,
        learning_rate=1e-4,
        warmup_fraction=0.05,
        hard_label_weight=1.0,
    ),
)
# Higher than for a model that is already pretrained.
FROM_SCRATCH = tuple(
    dataclasses.replace(stage, learning_rate=5e-4) for stage in STAGES
)
PAIRS = tuple(
    dataclasses.replace(
        stage, name="fine_tuning", epochs=10, warmup_fraction=0.1
    )
    for stage in FROM_SCRATCH
)
