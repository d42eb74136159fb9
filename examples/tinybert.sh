#!/usr/bin/env bash
# TinyBERT with the command line, on GLUE's SST-2 and a pretrained encoder.
#
#     examples/tinybert.sh GLUE_DIR ENCODER [more options]
#
# GLUE_DIR holds SST-2/train.tsv and SST-2/dev.tsv; ENCODER is a keras-hub
# preset's name or a checkpoint directory. Without arguments it shows the same
# path on generated data (kdkit demo).
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 2 ]; then
    exec kdkit demo --run-dir runs/demo
fi
glue=$1 encoder=$2
shift 2

kdkit train-teacher --task sst2 --data-dir "$glue" --model "$encoder" \
    --run-dir runs/sst2_teacher
kdkit distill tinybert --task sst2 --data-dir "$glue" \
    --teacher runs/sst2_teacher --control --run-dir runs/sst2_tinybert "$@"
kdkit export runs/sst2_teacher --precision fp32 --sequence-length 64
kdkit export runs/sst2_tinybert --precision fp32 fp16 int8 --sequence-length 64
kdkit benchmark runs/sst2_teacher/exports/*.tflite \
    runs/sst2_tinybert/exports/*.tflite --sequence-length 64
kdkit report runs/sst2_tinybert
