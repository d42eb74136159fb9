#!/usr/bin/env bash
# LightPAFF for MASS on Multi30k: table 7's six arms.
#
#     experiments/multi30k_mass.sh DATA [SEED] [TARGET_LANGUAGE]
#
# A teacher of 3+3 blocks of 320 and a student of 3+2 of 144, a fifth of its
# parameters, with a joint vocabulary of 4,000, for two cores. The sides of the
# pairs are the text that both are pretrained on. TARGET_LANGUAGE is de or fr.
set -euo pipefail
folder=$1/multi30k seed=${2:-0} target=${3:-de}
name=multi30k_en_$target
sides=(--languages en "$target")
corpus=(--corpus "$folder/train.en" "$folder/train.$target" "${sides[@]}")
pairs=(
    --pairs "$folder/train.en" "$folder/train.$target" "${sides[@]}"
    --held-out "$folder/val.en" "$folder/val.$target"
)
common=(
    --set jit_compile=false --set stages.0.batch_tokens=1024
    --set stages.0.learning_rate=1e-3
)
pretraining=("${common[@]}" --set stages.0.epochs=4)
fine_tuning=("${common[@]}" --set stages.0.epochs=10)
sizes() {
    for size in encoder_num_layers="$1" decoder_num_layers="$2" \
        hidden_dim="$3" num_heads=4 intermediate_dim="$4"; do
        echo --set "model.mass.$size"
    done
}
# shellcheck disable=SC2207
small=(--student lightpaff_mass_6_4_layer $(sizes 3 2 144 576))
# Where there is no teacher to take it from.
tokenizer=(--tokenizer runs/${name}_general)

# shellcheck disable=SC2046
kdkit pretrain "${corpus[@]}" --student mass_6_layer --vocabulary-size 4000 \
    $(sizes 3 3 320 1280) "${pretraining[@]}" --run-dir runs/${name}_general
kdkit pretrain "${pairs[@]}" --model runs/${name}_general \
    "${fine_tuning[@]}" --run-dir runs/${name}_teacher

# Arms are named pretraining_fine_tuning: kd, labels or none.
kdkit pretrain --recipe lightpaff --teacher runs/${name}_general \
    "${corpus[@]}" "${small[@]}" "${pretraining[@]}" --seed "$seed" \
    --run-dir "runs/${name}_general_kd_seed$seed"
kdkit pretrain "${corpus[@]}" "${small[@]}" "${tokenizer[@]}" \
    "${pretraining[@]}" --seed "$seed" --run-dir "runs/${name}_general_labels_seed$seed"

for before in kd labels none; do
    start=(--model "runs/${name}_general_${before}_seed$seed")
    own=()
    if [ $before = none ]; then
        start=("${small[@]}")
        own=("${tokenizer[@]}")
    fi
    kdkit pretrain --recipe lightpaff --teacher runs/${name}_teacher \
        "${pairs[@]}" "${start[@]}" "${fine_tuning[@]}" --seed "$seed" \
        --run-dir "runs/${name}_${before}_kd_seed$seed"
    kdkit pretrain "${pairs[@]}" "${start[@]}" "${own[@]}" "${fine_tuning[@]}" \
        --seed "$seed" --run-dir "runs/${name}_${before}_labels_seed$seed"
done

for model in teacher {kd,labels,none}_{kd,labels}_seed"$seed"; do
    kdkit evaluate "runs/${name}_$model" --pairs \
        "$folder/test_2016_flickr.en" "$folder/test_2016_flickr.$target" \
        --num-beams 5 --sequence-length 64
done
