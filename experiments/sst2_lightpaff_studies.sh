#!/usr/bin/env bash
# LightPAFF's studies of BERT on SST-2: λ, sizes, unlabelled rows, noise.
#
#     experiments/sst2_lightpaff_studies.sh DATA ENCODER
#
# After sst2_lightpaff.sh, whose students of seed 0 they start from or compare.
set -euo pipefail
data=$1 encoder=$2
teacher=runs/sst2_teacher_1_epoch
preset=lightpaff_bert_3_layer_en_uncased
pretraining=(
    --set jit_compile=update --set stages.0.batch_size=16
    --set stages.0.learning_rate=5e-4
)
task=(
    --task sst2 --data-dir "$data/glue" --teacher $teacher
    --set jit_compile=update --set stages.0.batch_size=64
)
small=(
    --set model.hidden_dim=256 --set model.num_heads=4
    --set model.intermediate_dim=1024
)

experiments/sst2_teachers.sh "$data" "$encoder"

# Section 6.3: what λ in pretraining does to the text held out.
kdkit sweep lightpaff --corpus runs/data/general.txt \
    --held-out runs/data/held_out.txt \
    --teacher runs/general_mlm --student $preset "${small[@]}" \
    "${pretraining[@]}" --set corpus.max_texts=10000 \
    --set stages.0.epochs=1 --over soft_label_weight=0.0,0.4,0.7,1.0 \
    --curves runs/sst2_lambda.svg --run-dir runs/sst2_lambda

# Table 10: a smaller student and a larger one.
declare -A layers=([tiny]=2 [wide]=3) width=([tiny]=128 [wide]=384)
declare -A heads=([tiny]=2 [wide]=12)
for size in tiny wide; do
    kdkit pretrain --recipe lightpaff --teacher runs/general_mlm \
        --student $preset --set model.num_layers=${layers[$size]} \
        --set model.hidden_dim=${width[$size]} \
        --set model.num_heads=${heads[$size]} \
        --set model.intermediate_dim=$((4 * ${width[$size]})) \
        --corpus runs/data/general.txt "${pretraining[@]}" \
        --set stages.0.epochs=2 --run-dir runs/sst2_general_$size
    kdkit distill lightpaff --stages fine_tuning \
        --student runs/sst2_general_$size "${task[@]}" \
        --cache runs/caches/sst2_logits --set stages.0.epochs=2 \
        --set stages.0.learning_rate=2e-4 --run-dir runs/sst2_lightpaff_$size
done
students=(runs/sst2_lightpaff_{tiny,kd_kd_seed0,wide})
for run in "${students[@]}" $teacher; do
    kdkit export "$run" --precision fp32 int8 --sequence-length 128 \
        --overwrite
done
# Table 2, and table 10's latencies.
for run in "${students[@]}"; do
    kdkit benchmark $teacher/exports/*.tflite "$run"/exports/*.tflite
done
kdkit report "${students[@]}" --trade-off runs/sst2_sizes.svg

# Table 11 and appendix 4: reviews that the teacher labels, for the student and
# for the teacher itself.
head -n 10000 runs/data/reviews.txt > runs/data/reviews_10000.txt
reviews=(
    --unlabeled runs/data/reviews_10000.txt --unlabeled-per-labeled 0.15
)
kdkit distill lightpaff --stages fine_tuning \
    --student runs/sst2_general_kd_seed0 "${task[@]}" "${reviews[@]}" \
    --cache runs/caches/sst2_logits --set stages.0.epochs=2 \
    --set stages.0.learning_rate=2e-4 --run-dir runs/sst2_lightpaff_reviews
kdkit distill lightpaff --stages fine_tuning --student "$encoder" \
    "${task[@]}" "${reviews[@]}" --cache runs/caches/sst2_logits \
    --set stages.0.epochs=1 --set stages.0.learning_rate=7e-5 \
    --run-dir runs/sst2_teacher_of_itself

# Figure 2: noise on the weights of what was distilled and what was not.
for scale in mean mean_magnitude; do
    python experiments/perturb.py runs/sst2_general_{kd,labels}_seed0 \
        --scale $scale \
        --curves runs/sst2_general_noise_$scale.svg
    python experiments/perturb.py \
        runs/sst2_lightpaff_{kd_kd,kd_labels,labels_kd,labels_labels}_seed0 \
        --scale $scale --curves runs/sst2_noise_$scale.svg
done
