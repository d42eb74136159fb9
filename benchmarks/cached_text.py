"""The cost of a decoder's distillation step with and without a teacher cache.

    python benchmarks/cached_text.py
    python benchmarks/cached_text.py --top-k 256 --precision bf16

Trains a GPT-2 of 3×192 for an epoch over a few rows of 128 random tokens by
LightPAFF's fine-tuning: on the tokens only, with a teacher of 6×384 that runs,
and with its cached outputs: for each position the top classes and all others as
one. In turn, round by round, in one process, input included. The
sizes are those of experiments/ptb_lightpaff.sh.

The last line is a JSON object. The exit status is 1 if the ratio of the
cached step to the step of the student alone is above the goal.
"""

import argparse
import dataclasses
import json
import os
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from measuring import median_seconds

import kdkit
from kdkit import data, models
from kdkit.recipes import RECIPES
from kdkit.teacher_cache import OutputsOfTeachers, TeacherCache
from kdkit.training.optimizers import make_optimizer

GOAL = 1.15
LENGTH, VOCABULARY, BATCH_SIZE = 128, 8000, 16
SIZES = {
    "teacher": {"num_layers": 6, "hidden_dim": 384, "num_heads": 6},
    "student": {"num_layers": 3, "hidden_dim": 192, "num_heads": 3},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--top-k", type=int, default=64)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    teacher = make("teacher")
    ids = np.random.default_rng(0).integers(
        0, VOCABULARY, (options.rows, LENGTH + 1)
    )
    corpus = data.PackedCorpus(ids.astype("int32"), 1, stride=LENGTH)
    with tempfile.TemporaryDirectory() as folder:
        kept, size = outputs(teacher, corpus, folder, options)
        medians = median_seconds(
            {
                "student alone": student_alone(corpus, options),
                "distillation": distillation(teacher, corpus, options),
                "distillation, cached": distillation(
                    teacher, corpus, options, kept
                ),
            },
            options.rounds,
        )
    steps = options.rows // BATCH_SIZE
    for name, median in medians.items():
        print(f"{name:<22} {1000 * median / steps:8.1f} ms a step")
    alone = medians["student alone"]
    ratio = medians["distillation, cached"] / alone
    print(
        json.dumps(
            {
                "benchmark": "cached_text",
                "top_k": options.top_k,
                "precision": options.precision,
                "kilobytes_per_row": round(size / options.rows / 1e3, 1),
                "kilobytes_of_all_logits": round(
                    4 * LENGTH * VOCABULARY / 1e3, 1
                ),
                "median_ms_per_step": {
                    name: round(1000 * median / steps, 1)
                    for name, median in medians.items()
                },
                "run_over_alone": round(medians["distillation"] / alone, 3),
                "cached_over_alone": round(ratio, 3),
                "goal": GOAL,
            }
        )
    )
    return 0 if ratio <= GOAL else 1


def make(name):
    sizes = SIZES[name]
    backbone = models.student(
        {
            "family": "gpt2",
            "intermediate_dim": 4 * sizes["hidden_dim"],
            "vocabulary_size": VOCABULARY,
            "max_sequence_length": LENGTH,
            **sizes,
        }
    )
    return models.language_model(backbone)


def recipe_stage(options):
    """LightPAFF's fine-tuning of GPT-2, with the top classes."""
    _, stage = RECIPES["lightpaff"].for_families["gpt2"].stages
    (objective,) = stage.objectives
    objective = dataclasses.replace(
        objective, loss=kdkit.losses.LogitKLDivergence(top_k=options.top_k)
    )
    return dataclasses.replace(stage, objectives=(objective,))


def make_distiller(teacher, options):
    stage = recipe_stage(options)
    return kdkit.Distiller(
        teacher,
        make("student"),
        stage.weighted_objectives(),
        stage.label_weight,
        chunk_size=stage.chunk_size,
    )


def outputs(teacher, corpus, folder, options):
    """Returns the teacher's cached outputs, and their size."""
    (entries,) = make_distiller(teacher, options).teacher_entries
    cache = TeacherCache(folder, teacher, {}, options.precision)
    kept = cache.outputs(data.PackedRows(corpus), entries)
    size = sum(shard["bytes"] for shard in cache.describe()["shards"])
    return lambda rows: OutputsOfTeachers([kept]), size


def student_alone(corpus, options):
    return epochs(make("student"), corpus, options, [])


def distillation(teacher, corpus, options, kept=None):
    return epochs(make_distiller(teacher, options), corpus, options, None, kept)


def epochs(model, corpus, options, metrics, features=None):
    """Returns a function that trains a model for another epoch."""
    stage = recipe_stage(options)
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    needs_loss = stage.label_weight or not isinstance(model, kdkit.Distiller)
    model.compile(
        optimizer=make_optimizer(stage, 1000, fused=True),
        loss=loss if needs_loss else None,
        metrics=metrics,
        jit_compile=False,
    )
    rows = data.PackedRows(corpus)
    stream = data.BatchStream(
        rows,
        data.FullBatches(BATCH_SIZE),
        features=features and features(rows),
    )
    batches, steps = stream.training(), stream.steps_per_epoch
    return lambda: model.fit(
        batches, steps_per_epoch=steps, verbose=0, shuffle=False
    )


if __name__ == "__main__":
    sys.exit(main())
