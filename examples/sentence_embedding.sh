#!/usr/bin/env bash
# A small sentence encoder with the command line: layers of a large one, which
# learn its vectors on any text.
#
#     examples/sentence_embedding.sh GLUE_DIR TEACHER TEXTS [more options]
#
# For example: examples/sentence_embedding.sh glue all-MiniLM-L6-v2 \
#     captions.txt --pooling mean --num-layers 3 --control
# Without arguments it shows the same on generated sentences.
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 3 ]; then
    exec kdkit distill sentence_embedding --smoke \
        --run-dir runs/smoke_sentence_embedding
fi
glue=$1 teacher=$2 texts=$3
shift 3

kdkit distill sentence_embedding --texts "$texts" --teacher "$teacher" \
    --task stsb --data-dir "$glue" --run-dir runs/sentence_embedding "$@"
kdkit report runs/sentence_embedding
