#!/usr/bin/env bash
# LightPAFF for MASS on Multi30k: table 7's six arms, two of them for French.
#
#     experiments/multi30k_mass.sh DATA [TARGET_LANGUAGE [SEED...]]
#
# A teacher of 3+3 blocks of 256 and a student of 3+2 of 112, a fifth of its
# parameters, with a joint vocabulary of 4,000, for two cores, in Keras' mixed
# bfloat16. The sides of the pairs are the text that both are pretrained on. What
# the teacher says of the pairs is kept. TARGET_LANGUAGE is de, unless given, or fr.
set -euo pipefail
folder=$1/multi30k target=${2:-de}
shift $(($# > 2 ? 2 : $#))
seeds=("${@:-0}")
runs=runs/multi30k_en_$target
arms=(full no_pretraining_no_kd)
[ "$target" = fr ] || arms+=(
    no_kd no_kd_in_{pretraining,fine_tuning} no_pretraining
)

sets=(--set training.jit_compile=update)
sizes() {
    for size in encoder_num_layers="$2" decoder_num_layers="$3" \
        hidden_dim="$4" num_heads=4 intermediate_dim=$((4 * $4)); do
        sets+=(--set "steps.$1.student.$size")
    done
}
sizes pretrained 3 3 256
sizes general 3 2 112
stage() {
    for field in batch_tokens=1024 epochs="$2" learning_rate="$3"; do
        sets+=(--set "$1.$field")
    done
}
stage steps.pretrained.stages.pretraining 3 5e-4
stage steps.teacher.stages.fine_tuning 8 5e-4
stage steps.general.stages.pretraining 2 1e-3
stage stages.fine_tuning 6 1e-3

kdkit ablate lightpaff --model mass --over stages \
    --arms "${arms[@]}" --seeds "${seeds[@]}" \
    --decoder mass_6_layer --vocabulary-size 4000 --languages en "$target" \
    --corpus "$folder/train.en" "$folder/train.$target" \
    --held-out "$folder/val.en" "$folder/val.$target" \
    --pairs "$folder/train.en" "$folder/train.$target" \
    --task-held-out "$folder/val.en" "$folder/val.$target" \
    --cache "runs/caches/multi30k_en_$target" --cache-precision bf16 \
    "${sets[@]}" --mixed-precision bfloat16 --run-dir "$runs"

models=("$runs/teacher_run")
for seed in "${seeds[@]}"; do
    for arm in "${arms[@]}"; do
        models+=("$runs/$arm/seed_$seed")
    done
done
for model in "${models[@]}"; do
    kdkit evaluate "$model" --pairs "$folder/test_2016_flickr.en" \
        "$folder/test_2016_flickr.$target" --num-beams 5 --sequence-length 64
done
