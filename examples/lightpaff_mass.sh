#!/usr/bin/env bash
# LightPAFF's four steps for MASS with the command line, in one run.
#
#     examples/lightpaff_mass.sh SOURCE TARGET DEV_SOURCE DEV_TARGET \
#         SOURCE_LANGUAGE TARGET_LANGUAGE [more options]
#
# The files have one text a line; those of a pair belong together. A teacher and
# a vocabulary are made on both sides alone (1) and on the pairs (2); then a
# student learns from the first on the sides (3) and from the second on the
# pairs (4). Without arguments it shows the same on eight lines.
# More options are those of kdkit distill.
set -euo pipefail

if [ $# -lt 6 ]; then
    smoke=smoke_
    folder=runs/smoke_mass_text
    mkdir -p "$folder"
    rm -f "$folder/en" "$folder/de"
    for _ in 1 2 3 4; do
        printf 'two dogs run\nthe cat sleeps\n' >> "$folder/en"
        printf 'zwei hunde rennen\ndie katze schläft\n' >> "$folder/de"
    done
    printf 'two cats sleep\nthe dog runs\n' > "$folder/dev.en"
    printf 'zwei katzen schlafen\nder hund rennt\n' > "$folder/dev.de"
    set -- "$folder/en" "$folder/de" "$folder/dev.en" "$folder/dev.de" en de \
        --set steps.pretrained.tokenizer=300
    for step in pretrained general; do
        for size in encoder_num_layers=1 decoder_num_layers=1 hidden_dim=32; do
            set -- "$@" --set "steps.$step.student.$size"
        done
    done
    for stage in steps.pretrained.stages.pretraining \
        steps.teacher.stages.fine_tuning \
        steps.general.stages.pretraining stages.fine_tuning; do
        set -- "$@" --set "$stage.epochs=1"
    done
fi
source=$1 target=$2 dev_source=$3 dev_target=$4 from=$5 to=$6
shift 6
run="runs/${smoke:-}${from}_${to}_lightpaff"

kdkit distill lightpaff --model mass --decoder mass_6_layer \
    --vocabulary-size 32000 --corpus "$source" "$target" \
    --pairs "$source" "$target" --languages "$from" "$to" \
    --task-held-out "$dev_source" "$dev_target" --run-dir "$run" "$@"
kdkit evaluate "$run" --pairs "$dev_source" "$dev_target" --num-beams 5
kdkit export "$run" --precision fp32 int8 --overwrite
kdkit report "$run"
