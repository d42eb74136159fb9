"""Fine-tuning on labels: how teachers are made.

Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 4.1: batch size
32, learning rate among 5e-5, 3e-5 and 2e-5, 3 epochs; the best epoch on dev is
kept.

    kdkit train-teacher --task sst2 --data-dir GLUE \\
        --model bert_base_en_uncased --run-dir runs/teacher_sst2
"""

from kdkit.training.stages import Stage

STAGES = (
    Stage(
        name="fine_tuning",
        epochs=3,
        learning_rate=3e-5,
        hard_label_weight=1.0,
    ),
)
