#!/usr/bin/env bash
# Fine-tuning with the command line: a student of an encoder's layers, on
# the labels alone.
#
#     examples/fine_tuning.sh GLUE_DIR TASK ENCODER [more options]
#
# For example: examples/fine_tuning.sh glue mrpc bert_base_en_uncased \
#     --num-layers 3
# Without arguments it shows the same on generated sentences.
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 3 ]; then
    exec kdkit distill fine_tuning --smoke --run-dir runs/smoke_fine_tuning
fi
glue=$1 task=$2 encoder=$3
shift 3

kdkit train-teacher --task "$task" --data-dir "$glue" --model "$encoder" \
    --run-dir "runs/${task}_teacher"
kdkit distill fine_tuning --task "$task" --data-dir "$glue" \
    --teacher "runs/${task}_teacher" --run-dir "runs/${task}_fine_tuning" "$@"
kdkit report "runs/${task}_fine_tuning"
