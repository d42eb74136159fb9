#!/usr/bin/env bash
# TinyBERT whole: general distillation, augmentation and task distillation.
#
#     examples/tinybert_whole.sh GLUE_DIR ENCODER TEXT WORD_VECTORS [more options]
#
# GLUE_DIR holds SST-2/train.tsv and SST-2/dev.tsv; ENCODER is a keras-hub
# preset's name or a checkpoint directory; TEXT a file of one text a line;
# WORD_VECTORS a text file such as glove.6B.300d.txt. More options go
# to kdkit distill. What is finished is used again when the script is run again.
set -euo pipefail

if [ $# -lt 4 ]; then
    sed -n '2,4s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
glue=$1 encoder=$2 text=$3 vectors=$4
shift 4

# A head for masked tokens, which the augmentation asks for words.
kdkit pretrain --corpus "$text" --model "$encoder" --run-dir runs/masked_lm
kdkit train-teacher --task sst2 --data-dir "$glue" --model "$encoder" \
    --run-dir runs/sst2_teacher
kdkit distill tinybert --task sst2 --data-dir "$glue" \
    --teacher runs/sst2_teacher --pretrained "$encoder" \
    --general runs/general --corpus "$text" \
    --augment runs/sst2_augmented.tsv --augment-model runs/masked_lm \
    --augment-vectors "$vectors" --run-dir runs/sst2_tinybert_whole "$@"
kdkit report runs/sst2_tinybert_whole
