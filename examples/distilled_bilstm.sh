#!/usr/bin/env bash
# Distilled BiLSTM with the command line: one LSTM that learns the teacher's
# logits, and the same LSTM on the labels alone.
#
#     examples/distilled_bilstm.sh GLUE_DIR TASK ENCODER [more options]
#
# For example: examples/distilled_bilstm.sh glue sst2 bert_base_en_uncased \
#     --word-vectors glove.6B.300d.txt --unlabeled more_sentences.txt
# Without arguments it shows the same on generated sentences.
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 3 ]; then
    exec kdkit distill distilled_bilstm --smoke --control \
        --run-dir runs/smoke_distilled_bilstm
fi
glue=$1 task=$2 encoder=$3
shift 3

kdkit train-teacher --task "$task" --data-dir "$glue" --model "$encoder" \
    --run-dir "runs/${task}_teacher"
kdkit distill distilled_bilstm --task "$task" --data-dir "$glue" \
    --teacher "runs/${task}_teacher" --control \
    --run-dir "runs/${task}_distilled_bilstm" "$@"
kdkit export "runs/${task}_distilled_bilstm" --precision fp32 int8
kdkit report "runs/${task}_distilled_bilstm"
