#!/usr/bin/env bash
# LightPAFF's four steps for GPT-2 with the command line, in one run.
#
#     examples/lightpaff_gpt2.sh TEXT TASK_TEXT TASK_DEV_TEXT [more options]
#
# The files have one text a line. A teacher and a vocabulary are made on TEXT (1)
# and the teacher goes on with the task's text (2); then a student learns from
# the first on TEXT (3) and from the second on the task's text (4). Without
# arguments it shows the same on a few lines. For Penn Treebank or WikiText add
# --one-document --detokenizer ptb or wikitext.
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 3 ]; then
    folder=runs/smoke_gpt2_text
    mkdir -p "$folder"
    for _ in 1 2 3 4 5 6 7 8; do
        printf 'two dogs run\nthe cat sleeps\n'
    done > "$folder/text"
    set -- "$folder/text" "$folder/text" "$folder/text" \
        --set steps.pretrained.tokenizer=270 --set corpus.sequence_length=16 \
        --set training.jit_compile=false
    for step in pretrained general; do
        for size in num_layers=1 hidden_dim=32 num_heads=2 \
            intermediate_dim=64; do
            set -- "$@" --set "steps.$step.student.$size"
        done
    done
    for stage in steps.pretrained.stages.pretraining \
        steps.teacher.stages.fine_tuning \
        steps.general.stages.pretraining stages.fine_tuning; do
        set -- "$@" --set "$stage.epochs=1"
    done
    run=runs/smoke_lightpaff_gpt2
fi
text=$1 task_text=$2 dev_text=$3
shift 3
run=${run:-runs/lightpaff_gpt2}

kdkit distill lightpaff --model gpt2 --decoder gpt2_medium_en \
    --vocabulary-size 50257 --corpus "$text" --task-text "$task_text" \
    --task-held-out "$dev_text" --run-dir "$run" "$@"
kdkit evaluate "$run"
kdkit generate "$run" --prompt "two" --max-tokens 16
kdkit export "$run" --precision fp32 int8 --overwrite
kdkit report "$run"
