#!/usr/bin/env bash
# Quantisation after and during training: MRPC and CoLA with three seeds, and
# 16,000 examples of SST-2 with one.
#
#     experiments/quantization.sh DATA MODEL [TASK...]
#
# MODEL is fine-tuned into a teacher, of which three layers become students by
# Patient-KD. Each student is exported as it is (quantisation after training), and
# trained further with its file's rounding, with the teacher and, as its control,
# without. quantization_table.py prints the metrics of all files.
set -euo pipefail
data=$1/glue model=$2
shift 2
tasks=("$@")
[ $# -gt 0 ] || tasks=(mrpc cola sst2)

for task in "${tasks[@]}"; do
    teacher=runs/quantization/${task}_teacher
    seeds=(0 1 2) teacher_epochs=4 epochs=4
    rows=()
    if [ "$task" = sst2 ]; then
        seeds=(0) teacher_epochs=1 epochs=2
        rows=(--set data.max_train_rows=16000)
    fi
    on_task=(
        --task "$task" --data-dir "$data"
        --set data.num_buckets=4 --set jit_compile=update
    )
    kdkit train-teacher "${on_task[@]}" --model "$model" \
        --set stages.0.epochs=$teacher_epochs \
        --set stages.0.learning_rate=5e-5 --run-dir "$teacher"
    for seed in "${seeds[@]}"; do
        student=runs/quantization/${task}_pkd_seed$seed
        taught=(
            --teacher "$teacher" --seed "$seed" "${on_task[@]}"
            --cache "runs/quantization/${task}_cache" "${rows[@]}"
        )
        kdkit distill pkd "${taught[@]}" --pretrained "$model" \
            --num-layers 3 --set stages.0.epochs=$epochs --set stages.0.learning_rate=1e-4 \
            --run-dir "$student"
        kdkit export "$student" --precision fp32 static_int8 int4 \
            --no-teacher --overwrite
        for precision in static_int8 int4; do
            run=runs/quantization/${task}_${precision}_seed$seed
            kdkit distill pkd "${taught[@]}" --student "$student" \
                --stages quantization --quantize $precision --control \
                --set stages.quantization.epochs=1 \
                --run-dir "$run"
            for arm in student control; do
                kdkit export "$run" --arm $arm --precision $precision \
                    --no-teacher --overwrite
            done
        done
    done
done
