#!/usr/bin/env bash
# LightPAFF's four steps for BERT with the command line, in one run.
#
#     examples/lightpaff.sh GLUE_DIR TASK ENCODER TEXT [more options]
#
# TEXT is a file of one text a line. The encoder is pretrained on it (1) and
# fine-tuned on the task (2); then a student with random weights learns from the
# first on TEXT (3) and from the second on the task (4). Without arguments it
# shows the same on generated sentences.
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 4 ]; then
    exec kdkit distill lightpaff --smoke --run-dir runs/smoke_lightpaff
fi
glue=$1 task=$2 encoder=$3 text=$4
shift 4

kdkit distill lightpaff --task "$task" --data-dir "$glue" \
    --encoder "$encoder" --corpus "$text" --control \
    --run-dir "runs/${task}_lightpaff" "$@"
kdkit export "runs/${task}_lightpaff" --precision fp32 int8
kdkit report "runs/${task}_lightpaff"
