#!/usr/bin/env bash
# LightPAFF for GPT-2 on Penn Treebank: table 7's six arms.
#
#     experiments/ptb_lightpaff.sh DATA [SEED]
#
# A teacher of 6×384 and a student of 3×192, a fifth of its parameters, with
# 8,000 byte pairs. The general text is runs/data/running.txt (texts.sh).
set -euo pipefail
data=$1 seed=${2:-0}
ptb=(
    --corpus "$data/ptb/ptb.train.txt" --held-out "$data/ptb/ptb.valid.txt"
    --one-document --detokenizer ptb
)
common=(--set jit_compile=update --set stages.0.batch_size=16)
pretraining=(
    "${common[@]}" --set stages.0.epochs=1 --set stages.0.learning_rate=1e-3
)
fine_tuning=(
    "${common[@]}" --set stages.0.epochs=2 --set stages.0.learning_rate=5e-4
)
small=(
    --student lightpaff_gpt2_4_layer_en --tokenizer runs/gpt2_general
    --set model.num_layers=3 --set model.hidden_dim=192
    --set model.num_heads=3 --set model.intermediate_dim=768
)

experiments/texts.sh "$data"

kdkit pretrain --corpus runs/data/running.txt \
    --student lightpaff_gpt2_4_layer_en --vocabulary-size 8000 \
    --set model.num_layers=6 --set model.hidden_dim=384 \
    --set model.num_heads=6 --set model.intermediate_dim=1536 \
    "${pretraining[@]}" --run-dir runs/gpt2_general
kdkit pretrain "${ptb[@]}" --model runs/gpt2_general "${fine_tuning[@]}" \
    --run-dir runs/ptb_teacher

# Arms are named pretraining_fine_tuning: kd, labels or none.
kdkit pretrain --recipe lightpaff --corpus runs/data/running.txt \
    --teacher runs/gpt2_general "${small[@]}" "${pretraining[@]}" \
    --set stages.0.soft_label_weight=0.4 --seed "$seed" \
    --run-dir "runs/ptb_general_kd_seed$seed"
kdkit pretrain --corpus runs/data/running.txt "${small[@]}" \
    "${pretraining[@]}" --seed "$seed" \
    --run-dir "runs/ptb_general_labels_seed$seed"

for before in kd labels none; do
    if [ $before = none ]; then
        start=("${small[@]}")
    else
        start=(--model "runs/ptb_general_${before}_seed$seed")
    fi
    kdkit pretrain --recipe lightpaff --stage fine_tuning "${ptb[@]}" \
        --teacher runs/ptb_teacher "${start[@]}" "${fine_tuning[@]}" \
        --seed "$seed" --run-dir "runs/ptb_${before}_kd_seed$seed"
    kdkit pretrain "${ptb[@]}" "${start[@]}" "${fine_tuning[@]}" \
        --seed "$seed" --run-dir "runs/ptb_${before}_labels_seed$seed"
done

for model in gpt2_general ptb_teacher ptb_{kd,labels,none}_{kd,labels}_seed"$seed"
do
    kdkit evaluate "runs/$model" --corpus "$data/ptb/ptb.test.txt" \
        --one-document --detokenizer ptb
done
