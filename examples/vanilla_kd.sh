#!/usr/bin/env bash
# Vanilla KD with the command line: a student of an encoder's layers, on
# labels and soft labels.
#
#     examples/vanilla_kd.sh GLUE_DIR TASK ENCODER [more options]
#
# For example: examples/vanilla_kd.sh glue mrpc bert_base_en_uncased \
#     --num-layers 3
# Without arguments it shows the same on generated sentences.
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 3 ]; then
    exec kdkit distill vanilla_kd --smoke --run-dir runs/smoke_vanilla_kd
fi
glue=$1 task=$2 encoder=$3
shift 3

kdkit train-teacher --task "$task" --data-dir "$glue" --model "$encoder" \
    --run-dir "runs/${task}_teacher"
kdkit distill vanilla_kd --task "$task" --data-dir "$glue" \
    --teacher "runs/${task}_teacher" --run-dir "runs/${task}_vanilla_kd" "$@"
kdkit report "runs/${task}_vanilla_kd"
