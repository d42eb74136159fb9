#!/usr/bin/env bash
# A sentence encoder for search with the command line: it learns the scores of a
# cross-encoder, which ranks a query's candidates.
#
#     examples/reranker_to_embedder.sh CANDIDATES TEACHER STUDENT [more options]
#
# For example: examples/reranker_to_embedder.sh train.tsv runs/cross_encoder \
#     all-MiniLM-L6-v2 --pooling mean --num-layers 3 --control
# Without arguments it shows the same on generated sentences.
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 3 ]; then
    exec kdkit distill reranker_to_embedder --smoke \
        --run-dir runs/smoke_reranker_to_embedder
fi
candidates=$1 teacher=$2 student=$3
shift 3

kdkit distill reranker_to_embedder --candidates "$candidates" \
    --teacher "$teacher" --student "$student" \
    --run-dir runs/reranker_to_embedder "$@"
kdkit report runs/reranker_to_embedder
