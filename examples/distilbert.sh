#!/usr/bin/env bash
# DistilBERT with the command line: distillation on running text, then on a
# task.
#
#     examples/distilbert.sh GLUE_DIR TASK ENCODER TEXT [more options]
#
# TEXT is a file of one text a line. The encoder is first pretrained on it, so
# that it has a head for masked tokens. Without arguments it shows the same on
# generated sentences.
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 4 ]; then
    exec kdkit distill distilbert --smoke --run-dir runs/smoke_distilbert
fi
glue=$1 task=$2 encoder=$3 text=$4
shift 4

kdkit pretrain --model "$encoder" --corpus "$text" --run-dir runs/pretrained
kdkit train-teacher --task "$task" --data-dir "$glue" --model "$encoder" \
    --run-dir "runs/${task}_teacher"
kdkit distill distilbert --task "$task" --data-dir "$glue" \
    --teacher "runs/${task}_teacher" --pretrained runs/pretrained \
    --corpus "$text" --run-dir "runs/${task}_distilbert" "$@"
kdkit report "runs/${task}_distilbert"
