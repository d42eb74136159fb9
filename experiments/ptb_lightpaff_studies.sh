#!/usr/bin/env bash
# LightPAFF's studies of GPT-2 on Penn Treebank: latency, noise, λ.
#
#     experiments/ptb_lightpaff_studies.sh DATA
#
# After ptb_lightpaff.sh, whose models of seed 0 they compare.
set -euo pipefail
data=$1
# Table 4: a token with room for 512 of them.
for model in teacher_run full/seed_0; do
    kdkit export runs/ptb/$model --precision fp32 int8 --sequence-length 512 \
        --overwrite
done
kdkit benchmark runs/ptb/{teacher_run,full/seed_0}/exports/*.tflite

# Figure 2: noise on the weights of what was distilled and what was not, after
# pretraining measured on the general text held out, after fine-tuning on the
# first fifth of the task's.
head -n 674 "$data/ptb/ptb.valid.txt" > runs/data/ptb_fifth.txt
for scale in mean mean_magnitude; do
    noise=(--scale $scale --metric word_perplexity)
    python experiments/perturb.py \
        runs/ptb/general_{kd,labels}/seed_0 "${noise[@]}" \
        --curves runs/ptb_general_noise_$scale.svg
    python experiments/perturb.py \
        runs/ptb/{full,no_kd_in_pretraining,no_kd_in_fine_tuning,no_kd}/seed_0 \
        "${noise[@]}" --corpus runs/data/ptb_fifth.txt --one-document \
        --detokenizer ptb --curves runs/ptb_noise_$scale.svg
done

# Section 6.3: what λ in pretraining does to the text held out.
kdkit sweep lightpaff --corpus runs/data/running.txt \
    --held-out runs/data/held_out.txt \
    --teacher runs/ptb/pretrained_run --student lightpaff_gpt2_4_layer_en \
    --set model.num_layers=3 --set model.hidden_dim=96 \
    --set model.num_heads=3 --set model.intermediate_dim=384 \
    --set corpus.max_texts=500 \
    --set stages.0.batch_size=8 --set stages.0.epochs=1 \
    --set stages.0.learning_rate=1e-3 \
    --over soft_label_weight=0.0,0.4,0.7,1.0 --curves runs/ptb_lambda.svg \
    --run-dir runs/ptb_lambda

# λ in fine-tuning, as the paper chooses it; on a quarter of the text.
head -n 10500 "$data/ptb/ptb.train.txt" > runs/data/ptb_quarter.txt
kdkit sweep lightpaff --stage fine_tuning --corpus runs/data/ptb_quarter.txt \
    --held-out "$data/ptb/ptb.valid.txt" --one-document --detokenizer ptb \
    --teacher runs/ptb/teacher_run --student runs/ptb/general_kd/seed_0 \
    --set stages.0.batch_size=8 --set stages.0.epochs=1 \
    --set stages.0.learning_rate=1e-3 \
    --over soft_label_weight=0.3,0.5,0.7,0.9 \
    --run-dir runs/ptb_lambda_fine_tuning
