#!/usr/bin/env bash
# LightPAFF for BERT on SST-2: table 7's six arms.
#
#     experiments/sst2_lightpaff.sh DATA ENCODER [SEED]
#
# The student is 3×256. The teacher on the task is that of sst2_teachers.sh, whose
# masked-language model goes on with the general text to be the one in
# pretraining. At a learning rate of 1e-3 the student's states became all the
# same on soft labels alone.
set -euo pipefail
data=$1 encoder=$2 seed=${3:-0}
teacher=runs/sst2_teacher_1_epoch
pretraining=(
    --corpus runs/data/general.txt --set training.jit_compile=update
    --epochs 2 --batch-size 16
    --learning-rate 5e-4 --seed "$seed"
)
task=(
    --task sst2 --data-dir "$data/glue" --teacher $teacher
    --set training.jit_compile=update --epochs 2
    --batch-size 64 --learning-rate 2e-4
)
preset=lightpaff_bert_3_layer_en_uncased
sizes() {
    for size in hidden_dim=256 num_heads=4 intermediate_dim=1024; do
        echo --set "$1.$size"
    done
}

experiments/sst2_teachers.sh "$data" "$encoder"

kdkit pretrain --model runs/phrases_mlm --corpus runs/data/general.txt \
    --set training.jit_compile=update --epochs 2 \
    --batch-size 16 --learning-rate 3e-4 \
    --run-dir runs/general_mlm

# Arms are named pretraining_fine_tuning: kd, labels or none.
# shellcheck disable=SC2046
kdkit pretrain --recipe lightpaff --teacher runs/general_mlm \
    --student $preset $(sizes student) "${pretraining[@]}" \
    --run-dir "runs/sst2_general_kd_seed$seed"
# shellcheck disable=SC2046
kdkit pretrain --student $preset --tokenizer "$encoder" $(sizes student) \
    "${pretraining[@]}" --run-dir "runs/sst2_general_labels_seed$seed"

for before in kd labels none; do
    if [ $before = none ]; then
        # shellcheck disable=SC2207
        start=(--student $preset $(sizes student))
    else
        start=(--student "runs/sst2_general_${before}_seed$seed")
    fi
    start+=("${task[@]}" --seed "$seed")
    kdkit distill lightpaff --stages fine_tuning "${start[@]}" \
        --cache runs/caches/sst2_logits \
        --run-dir "runs/sst2_lightpaff_${before}_kd_seed$seed"
    kdkit distill fine_tuning "${start[@]}" \
        --run-dir "runs/sst2_lightpaff_${before}_labels_seed$seed"
done
