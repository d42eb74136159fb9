#!/usr/bin/env bash
# BERT-small with the command line: the student's own pretraining, no teacher.
#
#     examples/bert_small.sh GLUE_DIR TASK ENCODER TEXT [more options]
#
# TEXT is a file of one text a line; ENCODER brings the tokenizer and is what
# the student is compared with. Without arguments it shows the same on generated
# sentences.
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 4 ]; then
    exec kdkit distill bert_small --smoke --run-dir runs/smoke_bert_small
fi
glue=$1 task=$2 encoder=$3 text=$4
shift 4

kdkit train-teacher --task "$task" --data-dir "$glue" --model "$encoder" \
    --run-dir "runs/${task}_teacher"
kdkit distill bert_small --task "$task" --data-dir "$glue" \
    --teacher "runs/${task}_teacher" --corpus "$text" \
    --run-dir "runs/${task}_bert_small" "$@"
kdkit report "runs/${task}_bert_small"
