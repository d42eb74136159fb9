#!/usr/bin/env bash
# Small sentence encoders from all-MiniLM-L6-v2, three seeds.
#
#     experiments/sentence_encoders.sh DATA MODEL [SEED...]
#
# Students of 3, 2 and 1 layers learn the vectors of 60,000 texts in one epoch;
# BERT 4×312 with random weights and a table of token vectors do in three
# (sentence_texts.py writes the texts). STS-B dev is never trained on. The
# teacher and each student's start are measured in every run; the random weights
# also learn without a teacher, in one epoch as the student beside them. The
# student of 3 layers learns shorter vectors, too. A student of 3 layers with a
# vocabulary of its own maps Multi30k's captions and their translations into
# German and French to the teacher's vectors of the captions.
# `kdkit report RUNS --markdown PAGE` writes the metrics.
set -euo pipefail
data=$1 model=$2
shift 2
seeds=("$@")
[ $# -gt 0 ] || seeds=(0 1 2)
out=runs/sentence_encoders
texts=runs/data/sentences.txt
captions=$data/multi30k

[ -s $texts ] || python experiments/sentence_texts.py "$data" $texts
for seed in "${seeds[@]}"; do
    taught=(
        --teacher "$model" --pooling mean --seed "$seed" --cache $out/cache
        --set data.num_buckets=4 --set training.jit_compile=update
    )
    of_texts=(--texts $texts --task stsb --data-dir "$data/glue")
    for layers in "1 3 6" "1 6" "6"; do
        read -ra chosen <<< "$layers"
        kdkit distill sentence_embedding "${taught[@]}" "${of_texts[@]}" \
            --layers "${chosen[@]}" --learning-rate 6e-4 \
            --run-dir "$out/layers_${#chosen[@]}_seed$seed"
    done
    kdkit distill sentence_embedding "${taught[@]}" "${of_texts[@]}" \
        --layers 1 3 6 --learning-rate 6e-4 --parity matryoshka \
        --run-dir "$out/matryoshka_3_seed$seed"
    random=(--student tinybert_4_layer_en_uncased --learning-rate 1e-3)
    kdkit distill sentence_embedding "${taught[@]}" "${of_texts[@]}" \
        "${random[@]}" --epochs 3 --set student.dropout=0.0 \
        --run-dir "$out/random_4x312_seed$seed"
    kdkit distill sentence_embedding "${taught[@]}" "${of_texts[@]}" \
        "${random[@]}" --epochs 1 --control \
        --run-dir "$out/random_1epoch_seed$seed"
    kdkit distill static_embedding "${taught[@]}" "${of_texts[@]}" --control \
        --run-dir "$out/static_seed$seed"
    kdkit distill multilingual "${taught[@]}" --layers 1 3 6 --epochs 1 \
        --parallel "$captions"/train.{en,de,fr} \
        --dev-parallel "$captions"/val.{en,de,fr} \
        --run-dir "$out/multilingual_seed$seed"
done
