"""The cost of distilling a sentence encoder with cached vectors.

    python benchmarks/cached_embedding.py
    python benchmarks/cached_embedding.py --layers 1

Trains layers of a 6×384 teacher on its cached vectors, as the recipe
`sentence_embedding` does, and the same student with a Keras loss against the
same vector for every text: the cost of the student's own step. Both read the
same rows through the same input pipeline: reading, padding and everything else
is counted. In turn, round by round, in one process. Rows are random tokens of
SST-2's lengths, padded to few lengths.

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
import numpy as np
from measuring import MINILM, cached_outputs, median_seconds, rows_like_sst2

import kdkit
from kdkit import data, models
from kdkit.backends import tf
from kdkit.recipes import RECIPES
from kdkit.taps import select_inputs
from kdkit.training.optimizers import make_optimizer

GOAL = 1.1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 3, 6])
    parser.add_argument("--rows", type=int, default=1280)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    teacher = models.make_embedder(
        models.student(MINILM, vocabulary_size=30522)
    )
    rows = rows_like_sst2(options.rows, 30522)
    (stage,) = RECIPES["sentence_embedding"].stages
    with tempfile.TemporaryDirectory() as folder:
        distiller = kdkit.Distiller(
            teacher,
            models.dropped_layers(teacher, options.layers),
            stage.weighted_objectives(),
        )
        outputs, _ = cached_outputs(distiller, rows, folder)
        distiller.compile(make_optimizer(stage, 1000), jit_compile=True)
        alone = models.dropped_layers(teacher, options.layers)
        alone.compile(
            make_optimizer(stage, 1000),
            loss=keras.losses.CosineSimilarity(),
            jit_compile=True,
        )
        target = np.ones(models.embedding_width(alone), "float32")
        medians = median_seconds(
            {
                "student alone": epochs(
                    alone,
                    rows,
                    options,
                    as_pair=lambda x, y: (
                        select_inputs(alone, x),
                        tf.repeat(target[None], tf.shape(y)[0], axis=0),
                    ),
                ),
                "distillation, cached": epochs(
                    distiller, rows, options, features=outputs
                ),
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
                "benchmark": "cached_embedding",
                "layers": options.layers,
                "rows": options.rows,
                "batch_size": options.batch_size,
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


def epochs(model, rows, options, features=None, as_pair=None):
    """Returns a function that trains a model for another epoch."""
    stream = data.BatchStream(
        rows,
        data.Buckets(options.batch_size, num_buckets=3),
        features=features,
    )
    batches, steps = stream.training(), stream.steps_per_epoch
    if as_pair is not None:
        batches = batches.map(as_pair)
    return lambda: model.fit(
        batches, steps_per_epoch=steps, verbose=0, shuffle=False
    )


if __name__ == "__main__":
    sys.exit(main())
