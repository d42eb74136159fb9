#!/usr/bin/env bash
# Small sentence encoders from layers of all-MiniLM-L6-v2, three seeds.
#
#     experiments/sentence_encoders.sh DATA MODEL [SEED...]
#
# Students of 3, 2 and 1 layers learn the vectors of 60,000 texts in one epoch
# (sentence_texts.py writes the texts). STS-B dev is never trained on. The
# teacher and the untouched layers are measured in every run.
# sentence_encoders_table.py prints the metrics.
set -euo pipefail
data=$1 model=$2
shift 2
seeds=("$@")
[ $# -gt 0 ] || seeds=(0 1 2)
out=runs/sentence_encoders
texts=runs/data/sentences.txt

[ -s $texts ] || python experiments/sentence_texts.py "$data" $texts
for seed in "${seeds[@]}"; do
    taught=(
        --texts $texts --teacher "$model" --pooling mean --seed "$seed"
        --task stsb --data-dir "$data/glue" --cache $out/cache
        --set data.num_buckets=4 --set jit_compile=update
    )
    for layers in "1 3 6" "1 6" "6"; do
        chosen=($layers)
        kdkit distill sentence_embedding "${taught[@]}" --layers "${chosen[@]}" \
            --run-dir "$out/layers_${#chosen[@]}_seed$seed"
    done
done
