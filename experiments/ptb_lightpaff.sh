#!/usr/bin/env bash
# LightPAFF for GPT-2 on Penn Treebank: table 7's six arms.
#
#     experiments/ptb_lightpaff.sh DATA [SEED]
#
# A teacher of 6×384 and a student of 3×192, a fifth of its parameters, for two
# cores. The general text is runs/data/running.txt (texts.sh), of which the 8,000
# byte pairs are, too.
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
# The recipe's warm-up for all arms, also those on labels alone.
fine_tuning=(
    "${common[@]}" --set stages.0.epochs=2 --set stages.0.learning_rate=5e-4
    --set stages.0.warmup_fraction=0.1
)
small=(
    --student lightpaff_gpt2_4_layer_en
    --set model.num_layers=3 --set model.hidden_dim=192
    --set model.num_heads=3 --set model.intermediate_dim=768
)
# Where there is no teacher to take it from.
tokenizer=(--tokenizer runs/gpt2_general)

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
    "${tokenizer[@]}" "${pretraining[@]}" --seed "$seed" \
    --run-dir "runs/ptb_general_labels_seed$seed"

for before in kd labels none; do
    start=(--model "runs/ptb_general_${before}_seed$seed")
    own=()
    if [ $before = none ]; then
        start=("${small[@]}")
        own=("${tokenizer[@]}")
    fi
    kdkit pretrain --recipe lightpaff --stage fine_tuning "${ptb[@]}" \
        --teacher runs/ptb_teacher "${start[@]}" "${fine_tuning[@]}" \
        --seed "$seed" --run-dir "runs/ptb_${before}_kd_seed$seed"
    kdkit pretrain "${ptb[@]}" "${start[@]}" "${own[@]}" "${fine_tuning[@]}" \
        --seed "$seed" --run-dir "runs/ptb_${before}_labels_seed$seed"
done

# Without fine-tuning and with it.
for model in gpt2_general ptb_general_{kd,labels}_seed"$seed" ptb_teacher \
    ptb_{kd,labels,none}_{kd,labels}_seed"$seed"
do
    kdkit evaluate "runs/$model" --corpus "$data/ptb/ptb.test.txt" \
        --one-document --detokenizer ptb --stride 64
done
