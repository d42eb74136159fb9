#!/usr/bin/env bash
# A sentence encoder for further languages with the command line: layers of a
# teacher with another vocabulary, which learn its vectors for translations.
#
#     examples/multilingual.sh TEACHER SOURCE TARGET [more options]
#
# For example: examples/multilingual.sh all-MiniLM-L6-v2 train.en train.de \
#     --pooling mean --dev-parallel val.en val.de
# Without arguments it shows the same on generated sentences.
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 3 ]; then
    exec kdkit distill multilingual --smoke --run-dir runs/smoke_multilingual
fi
teacher=$1 source=$2 target=$3
shift 3

kdkit distill multilingual --parallel "$source" "$target" \
    --teacher "$teacher" --run-dir runs/multilingual "$@"
kdkit report runs/multilingual
