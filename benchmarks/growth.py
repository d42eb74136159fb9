"""How the cost of distillation grows with the sizes of data and models.

    python benchmarks/growth.py

A step of TinyBERT's intermediate and soft-label objectives together, 4×256 to
2×128, as one thing at a time grows: rows of the data set (an epoch), tokens of
a row, blocks of both models, classes, words of the vocabulary. Time is taken as
size to a power: the exponent is the slope of a line through the logarithms.
Sizes of one kind are timed in turn, round by round. Costs that do not grow make
an exponent smaller, never larger.

The last line is a JSON object. The exit status is 1 if an exponent is above its
goal: attention is quadratic in the tokens, everything else is linear.
"""

import argparse
import json
import os
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from measuring import fit_step, median_seconds, random_batch, rows_like_sst2

import kdkit
from kdkit import data, models
from kdkit.training.optimizers import AdamW

BATCH_SIZE = 16
BASE = {"length": 64, "layers": 1, "classes": 2, "vocabulary": 10_000}
SIZES = {
    "rows": (128, 512, 2048),
    "length": (64, 128, 256, 512),
    "layers": (1, 2, 4, 8),  # of the student; the teacher has twice as many
    "classes": (100, 1_000, 10_000),
    "vocabulary": (10_000, 40_000, 160_000),
}
GOALS = {"length": 2.1}
GOAL = 1.1  # of the others


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SIZES, default=[*SIZES])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    results = {}
    for name in options.only:
        measure = epoch if name == "rows" else step
        medians = median_seconds(
            {size: measure(**{name: size}) for size in SIZES[name]},
            options.rounds,
        )
        exponent, _ = np.polyfit(
            np.log(list(medians)), np.log(list(medians.values())), 1
        )
        results[name] = {
            "median_ms": {
                size: round(1000 * seconds, 1)
                for size, seconds in medians.items()
            },
            "exponent": round(float(exponent), 2),
            "goal": GOALS.get(name, GOAL),
        }
        times = ", ".join(
            f"{size}: {1000 * seconds:.1f} ms"
            for size, seconds in medians.items()
        )
        print(f"{name:<11} to the power {exponent:5.2f}   {times}", flush=True)
        keras.backend.clear_session()
    missed = [
        name
        for name, result in results.items()
        if result["exponent"] > result["goal"]
    ]
    print(
        json.dumps(
            {"benchmark": "growth", "results": results, "missed": missed}
        )
    )
    return 1 if missed else 0


def distiller(length, layers, classes, vocabulary):
    """A compiled distiller of small models."""
    keras.utils.set_random_seed(0)
    same = {"vocabulary_size": vocabulary, "max_sequence_length": length}
    teacher, student = (
        models.student(
            {
                "num_layers": number,
                "hidden_dim": width,
                "num_heads": 4,
                "intermediate_dim": 4 * width,
                **same,
            },
            num_classes=classes,
        )
        for number, width in ((2 * layers, 256), (layers, 128))
    )
    objectives = [
        kdkit.Objective(kdkit.losses.AttentionMSE(), tap="attention_logits"),
        kdkit.Objective(
            kdkit.losses.HiddenStateMSE(),
            tap="hidden_states",
            projection="shared",
        ),
        kdkit.Objective(kdkit.losses.SoftCrossEntropy()),
    ]
    made = kdkit.Distiller(teacher, student, objectives)
    made.compile(AdamW(learning_rate=5e-5), jit_compile=True)
    return made


def step(**changes):
    """One step of `fit`, with one size changed."""
    sizes = {**BASE, **changes}
    model = distiller(**sizes)
    batch = random_batch(BATCH_SIZE, sizes["length"], sizes["vocabulary"])
    return fit_step(model, batch)


def epoch(rows):
    """Returns a function for an epoch, including reading and padding."""
    model = distiller(**BASE)
    encoded = rows_like_sst2(rows, BASE["vocabulary"])
    stream = data.BatchStream(encoded, data.Buckets(BATCH_SIZE, num_buckets=3))
    batches, steps = stream.training(), stream.steps_per_epoch
    return lambda: model.fit(
        batches, steps_per_epoch=steps, verbose=0, shuffle=False
    )


if __name__ == "__main__":
    sys.exit(main())
