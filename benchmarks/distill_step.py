"""What a distillation step costs over the work that it cannot avoid.

    python benchmarks/distill_step.py
    python benchmarks/distill_step.py --data-dir glue --teacher runs/teacher

Measures one update of TinyBERT's intermediate step (12×768 to 4×312, batch 16,
length 128) against its floor: the teacher's forward pass plus an update of the
student alone on labels. The three are timed in turn, round by round, in one
process, so that the ratio of the medians is that of one machine in one state.
Without arguments the teacher has random weights and the rows are random tokens
of full length; with them, the teacher and the rows of SST-2 are real.

The last line is a JSON object. The exit status is 1 where the ratio is above
the goal.
"""

import argparse
import json
import os
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf
from measuring import compiled_forward
from measuring import median_seconds
from measuring import random_batch

import kdkit
from kdkit import data
from kdkit.recipes import RECIPES
from kdkit.tasks import get_task

GOAL = 1.10
TEACHER = "bert_base_en_uncased"
STUDENT = "tinybert_4_layer_en_uncased"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", metavar="DIR", help="GLUE's folder")
    parser.add_argument(
        "--teacher", metavar="MODEL", help="fine-tuned on SST-2"
    )
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--sequence-length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()

    if bool(options.data_dir) != bool(options.teacher):
        parser.error("--data-dir and --teacher go together")

    keras.utils.set_random_seed(0)
    if options.teacher:
        teacher, batch = real_teacher_and_batch(options)
    else:
        teacher = kdkit.models.student(TEACHER, num_classes=2)
        batch = random_batch(
            options.batch_size,
            options.sequence_length,
            teacher.backbone.vocabulary_size,
        )
    work = {
        "teacher forward": compiled_forward(teacher, batch[0]),
        "student step": plain_step(teacher, batch),
        "distillation step": distillation_step(teacher, batch),
    }
    medians = median_seconds(work, options.rounds)
    for name, median in medians.items():
        print(f"{name:<18} {1000 * median:8.1f} ms")
    floor = medians["teacher forward"] + medians["student step"]
    ratio = medians["distillation step"] / floor
    print(
        json.dumps(
            {
                "benchmark": "distill_step",
                "teacher": options.teacher or TEACHER,
                "student": STUDENT,
                "batch_size": batch[0]["token_ids"].shape[0],
                "sequence_length": batch[0]["token_ids"].shape[1],
                "median_ms": {
                    name: round(1000 * median, 1)
                    for name, median in medians.items()
                },
                "step_over_floor": round(ratio, 3),
                "goal": GOAL,
            }
        )
    )
    return 0 if ratio <= GOAL else 1


def real_teacher_and_batch(options):
    """The teacher, and the longest of the first fifty batches of SST-2."""
    task = get_task("sst2")
    loaded = kdkit.models.load_classifier(options.teacher, task.num_classes)
    rows = task.load("train", options.data_dir)
    encoded = data.encode(rows, loaded.tokenizer, options.sequence_length)
    batches, _ = data.training_batches(encoded, options.batch_size, seed=0)
    batch = max(
        batches.take(50), key=lambda batch: batch[0]["token_ids"].shape[1]
    )
    return loaded.model, batch


def make_student(teacher):
    return kdkit.models.student(
        STUDENT,
        num_classes=2,
        vocabulary_size=teacher.backbone.vocabulary_size,
    )


def plain_step(teacher, batch):
    return update(make_student(teacher), batch)


def distillation_step(teacher, batch):
    stage = RECIPES["tinybert"].stages_for(get_task("sst2"))[0]
    distiller = kdkit.Distiller(
        teacher,
        make_student(teacher),
        [settings.build() for settings in stage.objectives],
    )
    return update(distiller, batch)


def update(model, batch):
    """One step of `fit`, as `fit` compiles it."""
    model.compile(
        optimizer=keras.optimizers.AdamW(5e-5),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=True,
    )
    steps = tf.data.Dataset.from_tensors(batch).repeat()
    model.fit(steps, steps_per_epoch=1, verbose=0)
    iterator = iter(steps)

    def step():
        logs = model.train_function(iterator)
        return float(logs["loss"])

    return step


if __name__ == "__main__":
    sys.exit(main())
