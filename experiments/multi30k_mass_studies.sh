#!/usr/bin/env bash
# LightPAFF's studies of MASS on Multi30k: latency, difficulty, λ, sequences.
#
#     experiments/multi30k_mass_studies.sh DATA
#
# After multi30k_mass.sh with seed 0 and English to German, whose models they
# start from or compare.
set -euo pipefail
folder=$1/multi30k
name=multi30k_en_de
sides=(--languages en de)
pairs=(
    --pairs "$folder/train.en" "$folder/train.de" "${sides[@]}"
    --held-out "$folder/val.en" "$folder/val.de"
)
common=(
    --mixed-precision bfloat16
    --set jit_compile=update --set stages.0.batch_tokens=1024
    --set stages.0.learning_rate=1e-3
)
small=(
    --student lightpaff_mass_6_4_layer
    --set model.mass.encoder_num_layers=3 --set model.mass.decoder_num_layers=2
    --set model.mass.hidden_dim=112 --set model.mass.num_heads=4
    --set model.mass.intermediate_dim=448
)
measured=(
    --pairs "$folder/test_2016_flickr.en" "$folder/test_2016_flickr.de"
    --num-beams 5 --sequence-length 64
)

# Table 6: a sentence of 25 tokens, read and written, with room for 64.
for model in teacher_run full/seed_0; do
    kdkit export runs/$name/$model --precision fp32 int8 \
        --sequence-length 64 --overwrite
done
kdkit benchmark runs/$name/{teacher_run,full/seed_0}/exports/*.tflite
kdkit evaluate runs/$name/full/seed_0/exports/student-int8.tflite \
    "${measured[@]}"

# Table 8: as many tokens an update for each of the three.
python experiments/difficulty.py \
    --corpus "$folder/train.en" --held-out "$folder/val.en" \
    --vocabulary-size 4000 --num-layers 4 --hidden-dim 192 --num-heads 4 \
    --set jit_compile=update --set corpus.sequence_length=64 \
    --set stages.0.epochs=5 --set stages.0.learning_rate=1e-3 \
    --set stages.0.batch_size=16 --set stages.0.batch_tokens=1024 \
    --run-dir runs/multi30k_difficulty

# Section 6.3: what λ in pretraining does to the text held out, and λ in
# fine-tuning to the pairs that it is chosen on.
kdkit sweep lightpaff --corpus "$folder/train.en" "$folder/train.de" \
    --held-out "$folder/val.en" "$folder/val.de" "${sides[@]}" \
    --teacher runs/$name/pretrained_run "${small[@]}" "${common[@]}" \
    --set corpus.max_texts=10000 --set stages.0.epochs=1 \
    --over soft_label_weight=0.0,0.4,0.7,1.0 \
    --curves runs/${name}_lambda.svg --run-dir runs/${name}_lambda
kdkit sweep lightpaff "${pairs[@]}" --teacher runs/$name/teacher_run \
    --student runs/$name/general_kd/seed_0 "${common[@]}" \
    --set stages.0.epochs=2 --over soft_label_weight=0.3,0.5,0.7,0.9 \
    --run-dir runs/${name}_lambda_fine_tuning

# Sequence-level distillation: pairs with what the teacher writes.
written=runs/data/$name.written
[ -e $written.de ] || kdkit generate runs/$name/teacher_run --sampler beam \
    --num-beams 4 --max-tokens 64 --input "$folder/train.en" \
    --output $written.de --kept-input $written.en
kdkit pretrain --pairs $written.en $written.de "${sides[@]}" \
    --held-out "$folder/val.en" "$folder/val.de" \
    --model runs/$name/general_kd/seed_0 "${common[@]}" \
    --set stages.0.epochs=6 --run-dir runs/${name}_sequences

# Beside `full`: the averaged weights of the last epochs.
kdkit pretrain --recipe lightpaff --teacher runs/$name/teacher_run \
    --cache "runs/caches/$name/student" --cache-precision bf16 \
    "${pairs[@]}" --model runs/$name/general_kd/seed_0 "${common[@]}" \
    --set stages.0.epochs=6 --set stages.0.keep_best=false \
    --set stages.0.average_last=3 --run-dir runs/${name}_averaged

# Beside `no_kd`: smoothed labels.
kdkit pretrain "${pairs[@]}" --model runs/$name/general_labels/seed_0 \
    "${common[@]}" --set stages.0.epochs=6 \
    --set stages.0.label_smoothing=0.1 --run-dir runs/${name}_smoothed

for model in sequences averaged smoothed; do
    kdkit evaluate runs/${name}_$model "${measured[@]}"
done
