#!/usr/bin/env bash
# The teachers on SST-2: a masked-language model and a classifier.
#
#     experiments/sst2_teachers.sh DATA ENCODER
#
# ENCODER is all-MiniLM-L6-v2's directory. Both are made of it: with a head for
# masked tokens, which also asks for words where rows are augmented, and
# fine-tuned.
set -euo pipefail
data=$1 encoder=$2

experiments/texts.sh "$data"
kdkit pretrain --corpus runs/data/phrases.txt --model "$encoder" \
    --set corpus.max_texts=40000 --set stages.0.epochs=1 \
    --set stages.0.batch_size=16 --set stages.0.learning_rate=3e-4 \
    --set jit_compile=update --run-dir runs/phrases_mlm
kdkit train-teacher --task sst2 --data-dir "$data/glue" --model "$encoder" \
    --set stages.0.epochs=1 --set stages.0.learning_rate=7e-5 \
    --set stages.0.batch_size=64 --set jit_compile=update \
    --run-dir runs/sst2_teacher_1_epoch
