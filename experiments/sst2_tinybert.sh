#!/usr/bin/env bash
# TinyBERT on SST-2: the whole recipe, its ablations, students of other sizes.
#
#     experiments/sst2_tinybert.sh DATA ENCODER [arms|whole|sizes]
#
# The teachers are those of sst2_teachers.sh. The arms and the students of other
# sizes learn from 1,000 rows and their copies, the whole recipe from all rows
# and the copies of 2,104.
set -euo pipefail
data=$1 encoder=$2 what=${3:-all}
glove=$data/glove/glove.6B.100d.top2717.txt
small=runs/data/glue_1000
teacher=runs/sst2_teacher_1_epoch
two_stages=(
    --set training.jit_compile=update
    --set stages.intermediate_layer.epochs=2
    --set stages.intermediate_layer.learning_rate=5e-4
    --set stages.prediction_layer.epochs=2
    --set stages.prediction_layer.learning_rate=1e-4
)

experiments/sst2_teachers.sh "$data" "$encoder"

general() {
    run=$1
    shift
    kdkit pretrain --recipe tinybert --teacher "$encoder" \
        --student tinybert_4_layer_en_uncased --corpus runs/data/general.txt \
        --epochs 1 --batch-size 16 \
        --learning-rate 1e-3 --set training.jit_compile=update "$@" \
        --run-dir "$run"
}

general runs/tinybert_general_small
kdkit augment --task sst2 --data-dir $small --model runs/phrases_mlm \
    --word-vectors "$glove" --output runs/sst2_1000_augmented.tsv

on_small=(
    --task sst2 --data-dir $small --teacher $teacher
    --augment runs/sst2_1000_augmented.tsv --cache runs/caches/sst2_1000
)

if [[ $what =~ all|arms ]]; then
    over() {
        kdkit ablate tinybert --over "$1" "${on_small[@]}" \
            --general runs/tinybert_general_small "${two_stages[@]}" "${@:2}"
    }
    for table in objectives layer_map stages; do
        over $table --run-dir runs/sst2_tinybert
    done
    # What differs by about a point, with more seeds.
    seeds=(--seeds 1 2 --run-dir runs/sst2_tinybert)
    over objectives --arms full no_embeddings "${seeds[@]}"
    over layer_map --arms top bottom "${seeds[@]}"
    over stages --arms no_general --seeds 1 --run-dir runs/sst2_tinybert
    # Without copies, but with as many updates as with them.
    over stages --arms no_augment \
        --set stages.intermediate_layer.epochs=31 \
        --set stages.prediction_layer.epochs=31 \
        --run-dir runs/sst2_tinybert_as_many_updates
fi

if [[ $what =~ all|whole ]]; then
    kdkit augment --task sst2 --data-dir "$data/glue" \
        --model runs/phrases_mlm --word-vectors "$glove" --shard 1/32 \
        --output runs/sst2_augmented.tsv
    kdkit distill tinybert --task sst2 --data-dir "$data/glue" \
        --teacher $teacher --general runs/tinybert_general_small \
        --augment runs/sst2_augmented.part_1_of_32.tsv \
        --cache runs/caches/sst2 --set training.jit_compile=update \
        --set stages.intermediate_layer.epochs=1 \
        --set stages.intermediate_layer.batch_size=64 \
        --set stages.intermediate_layer.learning_rate=7e-4 \
        --set stages.prediction_layer.epochs=2 \
        --set stages.prediction_layer.batch_size=64 \
        --set stages.prediction_layer.learning_rate=2e-4 --seed 0 \
        --run-dir runs/sst2_tinybert_whole
    kdkit export $teacher --precision fp32 --sequence-length 64 --overwrite
    kdkit export runs/sst2_tinybert_whole --precision fp32 int8 \
        --sequence-length 64 --overwrite
    kdkit benchmark $teacher/exports/*.tflite \
        runs/sst2_tinybert_whole/exports/*.tflite
    # The same start on the labels of the same rows, without copies.
    kdkit distill fine_tuning --task sst2 --data-dir "$data/glue" \
        --teacher $teacher --student runs/tinybert_general_small \
        --set training.jit_compile=update --epochs 3 \
        --batch-size 64 --learning-rate 2e-4 \
        --seed 0 --run-dir runs/sst2_task_only
fi

if [[ $what =~ all|sizes ]]; then
    deeper=(--set student.num_layers=6)
    wider=(--set student.hidden_dim=384 --set student.intermediate_dim=1536)
    for size in deeper wider; do
        declare -n sizes=$size
        general runs/tinybert_general_$size "${sizes[@]}"
        kdkit distill tinybert "${on_small[@]}" "${two_stages[@]}" \
            --general runs/tinybert_general_$size --seed 0 \
            --run-dir runs/sst2_1000_rows_$size
    done
fi
