#!/usr/bin/env bash
# LightPAFF for GPT-2 on Penn Treebank: table 7's six arms.
#
#     experiments/ptb_lightpaff.sh DATA [SEED...]
#
# A teacher of 4×256 and a student of 3×96, a fifth of its parameters, for two
# cores. The general text is runs/data/running.txt (texts.sh), of which the 8,000
# byte pairs are, too. The teachers are made with seed 0; what they say is kept,
# of the first 64 tokens and of all others as one.
set -euo pipefail
data=$1
shift
seeds=("${@:-0}")

experiments/texts.sh "$data"

sets=()
for size in num_layers=4 hidden_dim=256 num_heads=4 intermediate_dim=1024; do
    sets+=(--set "steps.pretrained.student.$size")
done
for size in num_layers=3 hidden_dim=96 num_heads=3 intermediate_dim=384; do
    sets+=(--set "steps.general.student.$size")
done
stage() {
    for field in batch_size=8 learning_rate=1e-3 epochs="$2"; do
        sets+=(--set "$1.$field")
    done
}
stage steps.pretrained.stages.pretraining 4
stage steps.teacher.stages.fine_tuning 4
stage steps.general.stages.pretraining 2
stage stages.fine_tuning 2
for step in pretrained teacher; do
    sets+=(--set steps.$step.training.jit_compile=update)
done
for stage in steps.general.stages.pretraining stages.fine_tuning; do
    sets+=(--set $stage.objectives.logit_kl_divergence.loss.top_k=64)
done

kdkit ablate lightpaff --model gpt2 --over stages --seeds "${seeds[@]}" \
    --decoder gpt2_medium_en --vocabulary-size 8000 \
    --corpus runs/data/running.txt --task-text "$data/ptb/ptb.train.txt" \
    --task-held-out "$data/ptb/ptb.valid.txt" --one-document \
    --detokenizer ptb --cache runs/caches/ptb "${sets[@]}" --run-dir runs/ptb

# Without fine-tuning and with it.
models=(runs/ptb/{pretrained,teacher}_run)
for seed in "${seeds[@]}"; do
    for arm in general_{kd,labels} full no_kd_in_{pretraining,fine_tuning} \
        no_kd no_pretraining no_pretraining_no_kd; do
        models+=("runs/ptb/$arm/seed_$seed")
    done
done
for model in "${models[@]}"; do
    kdkit evaluate "$model" --corpus "$data/ptb/ptb.test.txt" \
        --one-document --detokenizer ptb --stride 64
done
