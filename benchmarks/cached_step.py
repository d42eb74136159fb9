"""The cost of a distillation step with cached teacher outputs.

    python benchmarks/cached_step.py
    python benchmarks/cached_step.py --precision bf16

Trains TinyBERT's 4×312 student for some updates of its intermediate step (all
of the attention and the hidden states of a 12×768 teacher) with a teacher
cache, and the same student on labels alone, both from the same rows through the
same input pipeline: reading, padding and everything else is counted. In turn,
round by round, in one process. Rows are random tokens of SST-2's lengths,
padded to few lengths.

The last line is a JSON object. The exit status is 1 if the ratio is above the
goal.
"""

import argparse
import json
import os
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
from measuring import cached_outputs, median_seconds, rows_like_sst2

import kdkit
from kdkit import data
from kdkit.recipes import RECIPES
from kdkit.taps import select_inputs
from kdkit.tasks import get_task
from kdkit.training.optimizers import make_optimizer

GOAL = 1.15
TEACHER = "bert_base_en_uncased"
STUDENT = "tinybert_4_layer_en_uncased"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--rows", type=int, default=640)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    teacher = kdkit.models.student(TEACHER, num_classes=2)
    rows = rows_like_sst2(options.rows, teacher.backbone.vocabulary_size)
    with tempfile.TemporaryDirectory() as folder:
        distilled, size = cached_distillation(teacher, rows, folder, options)
        medians = median_seconds(
            {
                "student alone": plain_training(rows, options),
                "distillation, cached": distilled,
            },
            options.rounds,
        )
    steps = -(-options.rows // options.batch_size)
    for name, median in medians.items():
        print(f"{name:<22} {1000 * median / steps:8.1f} ms a step")
    ratio = medians["distillation, cached"] / medians["student alone"]
    print(
        json.dumps(
            {
                "benchmark": "cached_step",
                "teacher": TEACHER,
                "student": STUDENT,
                "precision": options.precision,
                "rows": options.rows,
                "megabytes": round(size / 1e6, 1),
                "median_ms_per_step": {
                    name: round(1000 * median / steps, 1)
                    for name, median in medians.items()
                },
                "cached_over_plain": round(ratio, 3),
                "goal": GOAL,
            }
        )
    )
    return 0 if ratio <= GOAL else 1


def make_student(vocabulary_size):
    return kdkit.models.student(
        STUDENT, num_classes=2, vocabulary_size=vocabulary_size
    )


def cached_distillation(teacher, rows, folder, options):
    """An epoch of the intermediate step from a cache, and its size."""
    (stage, _) = RECIPES["tinybert"].stages_for(get_task("sst2"))
    student = make_student(teacher.backbone.vocabulary_size)
    distiller = kdkit.Distiller(teacher, student, stage.weighted_objectives())
    outputs, size = cached_outputs(distiller, rows, folder, options.precision)
    distiller.compile(make_optimizer(stage, 1000), jit_compile=True)
    return epochs(distiller, rows, options, lambda unused: outputs), size


def plain_training(rows, options):
    """An epoch of the student on labels."""
    (stage, _) = RECIPES["tinybert"].stages_for(get_task("sst2"))
    vocabulary_size = kdkit.models.student_config(TEACHER).vocabulary_size
    student = make_student(vocabulary_size)
    student.compile(
        make_optimizer(stage, 1000),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[],
        jit_compile=True,
    )
    return epochs(student, rows, options, None)


def epochs(model, rows, options, features):
    """Returns a function that trains a model for another epoch."""
    stream = data.BatchStream(
        rows,
        data.Buckets(options.batch_size, num_buckets=3),
        features=features and features(rows),
    )
    batches, steps = stream.training(), stream.steps_per_epoch
    if features is None:
        batches = batches.map(lambda x, y: (select_inputs(model, x), y))
    return lambda: model.fit(
        batches, steps_per_epoch=steps, verbose=0, shuffle=False
    )


if __name__ == "__main__":
    sys.exit(main())
