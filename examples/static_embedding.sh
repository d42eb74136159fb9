#!/usr/bin/env bash
# A sentence encoder without a transformer, with the command line: a table of
# token vectors, made from a large encoder and trained on its vectors.
#
#     examples/static_embedding.sh GLUE_DIR TEACHER TEXTS [more options]
#
# For example: examples/static_embedding.sh glue all-MiniLM-L6-v2 \
#     captions.txt --pooling mean --control
# Without arguments it shows the same on generated sentences.
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 3 ]; then
    exec kdkit distill static_embedding --smoke \
        --run-dir runs/smoke_static_embedding
fi
glue=$1 teacher=$2 texts=$3
shift 3

kdkit distill static_embedding --texts "$texts" --teacher "$teacher" \
    --task stsb --data-dir "$glue" --run-dir runs/static_embedding "$@"
kdkit export runs/static_embedding --precision fp32 int8
kdkit report runs/static_embedding
