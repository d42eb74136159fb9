"""The cost of padding to one length compared with a few lengths.

    python benchmarks/padding.py
    python benchmarks/padding.py --data-dir glue --teacher runs/teacher

An epoch of TinyBERT's intermediate step, 6×384 to 4×312, over rows as long as
SST-2's: with every batch padded to 128 tokens, as the authors' code does, and
with batches of rows with similar lengths, padded to the lengths that waste
least. Includes reading and padding. In turn, round by round, in one process.
Rows are random tokens; with --data-dir and --teacher, rows and teacher are
real.

The last line is a JSON object. The exit status is 1 if the speed-up is below
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
from measuring import median_seconds, teacher_and_rows

import kdkit
from kdkit import data, models
from kdkit.recipes import RECIPES
from kdkit.tasks import get_task
from kdkit.training.optimizers import make_optimizer

GOAL = 3.0
PADDED = 128
STUDENT = "tinybert_4_layer_en_uncased"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", metavar="DIR", help="GLUE's folder")
    parser.add_argument("--teacher", metavar="MODEL")
    parser.add_argument("--rows", type=int, default=320)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--num-buckets", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    if bool(options.data_dir) != bool(options.teacher):
        parser.error("--data-dir and --teacher go together")
    keras.utils.set_random_seed(0)
    teacher, rows = teacher_and_rows(options, PADDED)
    batching = data.Buckets(options.batch_size, options.num_buckets)
    stream = data.BatchStream(rows, batching)
    batches, steps = stream.training(), stream.steps_per_epoch
    lengths = [batch["token_ids"].shape for batch, _ in batches.take(steps)]
    medians = median_seconds(
        {
            "padded to 128": epoch(teacher, batches.map(padded), steps),
            "few lengths": epoch(teacher, batches, steps),
        },
        options.rounds,
    )
    for name, median in medians.items():
        print(f"{name:<14} {len(rows) / median:8.1f} rows a second")
    ratio = medians["padded to 128"] / medians["few lengths"]
    bucketed = sum(count * length for count, length in lengths)
    print(
        json.dumps(
            {
                "benchmark": "padding",
                "teacher": options.teacher,
                "rows": len(rows),
                "tokens": {
                    "real": int(rows.lengths.sum()),
                    "few lengths": int(bucketed),
                    "padded to 128": PADDED * len(rows),
                },
                "rows_per_second": {
                    name: round(len(rows) / median, 1)
                    for name, median in medians.items()
                },
                "times_faster": round(ratio, 2),
                "goal": GOAL,
            }
        )
    )
    return 0 if ratio >= GOAL else 1


def padded(x, y):
    """Pads a batch to the length in the authors' code."""
    missing = PADDED - tf.shape(x["token_ids"])[1]
    return {
        name: tf.pad(tensor, [[0, 0], [0, missing]])
        for name, tensor in x.items()
    }, y


def epoch(teacher, batches, steps):
    """Returns a function that trains a new student for another epoch."""
    (stage, _) = RECIPES["tinybert"].stages_for(get_task("sst2"))
    student = models.student(
        STUDENT,
        num_classes=2,
        vocabulary_size=teacher.backbone.vocabulary_size,
    )
    distiller = kdkit.Distiller(teacher, student, stage.weighted_objectives())
    distiller.compile(make_optimizer(stage, 1000), jit_compile=True)
    return lambda: distiller.fit(
        batches, steps_per_epoch=steps, verbose=0, shuffle=False
    )


if __name__ == "__main__":
    sys.exit(main())
