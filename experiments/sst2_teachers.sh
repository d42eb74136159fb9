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
    --set corpus.max_texts=40000 --epochs 1 \
    --batch-size 16 --learning-rate 3e-4 \
    --set training.jit_compile=update --run-dir runs/phrases_mlm
kdkit train-teacher --task sst2 --data-dir "$data/glue" --model "$encoder" \
    --epochs 1 --learning-rate 7e-5 \
    --batch-size 64 --set training.jit_compile=update \
    --run-dir runs/sst2_teacher_1_epoch
