"""A distillation step compared with Keras' own Distiller.

    python benchmarks/keras_distillation.py

`keras.distillation.Distiller` compares logits, and outputs of layers that it
finds by name, in models of equal width without a nested encoder. So a BERT of
12 blocks of 512 teaches one of 6, by soft labels and labels ("logits"), and
additionally by the states of three blocks ("features"). Both libraries use the
same weights, batch and optimizer, and XLA compiles both steps; they are timed
in turn, round by round. Masks, projections and attention, which Keras does not
have, are not included.

The last line is a JSON object. The exit status is 1 if kdkit's step is slower
than Keras' by more than the goal.
"""

import argparse
import json
import os
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
from measuring import fit_step, median_seconds, random_batch

import kdkit
from kdkit import models
from kdkit.training.optimizers import AdamW

GOAL = 1.05
LAYER_MAP = {2: 4, 4: 8, 6: 12}  # from the student's block to the teacher's
TEACHER = {"num_layers": 12}
STUDENT = {"num_layers": 6}
WIDTH = {"hidden_dim": 512, "num_heads": 8, "intermediate_dim": 2048}
TEMPERATURE = 2.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--sequence-length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    results = {}
    for kind in ("logits", "features"):
        work = {
            "kdkit": update(with_kdkit(kind), options),
            "keras": update(with_keras(kind), options),
        }
        results[kind] = median_seconds(work, options.rounds)
        ratio = results[kind]["kdkit"] / results[kind]["keras"]
        print(
            f"{kind:<9} kdkit {1000 * results[kind]['kdkit']:8.1f} ms, "
            f"keras {1000 * results[kind]['keras']:8.1f} ms: {ratio:.3f}",
            flush=True,
        )
        keras.backend.clear_session()
    ratios = {
        kind: round(found["kdkit"] / found["keras"], 3)
        for kind, found in results.items()
    }
    print(
        json.dumps(
            {
                "benchmark": "keras_distillation",
                "keras": keras.version(),
                "batch_size": options.batch_size,
                "sequence_length": options.sequence_length,
                "median_ms": {
                    kind: {
                        name: round(1000 * seconds, 1)
                        for name, seconds in found.items()
                    }
                    for kind, found in results.items()
                },
                "kdkit_over_keras": ratios,
                "goal": GOAL,
            }
        )
    )
    return 1 if max(ratios.values()) > GOAL else 0


def pair():
    """Returns teacher and student, the same for every call."""
    keras.utils.set_random_seed(0)
    return [
        models.student({**sizes, **WIDTH}, num_classes=2, dropout=0.0)
        for sizes in (TEACHER, STUDENT)
    ]


def with_kdkit(kind):
    objectives = [
        kdkit.Objective(kdkit.losses.LogitKLDivergence(TEMPERATURE), weight=0.5)
    ]
    if kind == "features":
        objectives.append(
            kdkit.Objective(
                kdkit.losses.HiddenStateMSE(),
                tap="hidden_states",
                layer_map=LAYER_MAP,
                include_embeddings=False,
            )
        )
    return kdkit.Distiller(*pair(), objectives, hard_label_weight=0.5)


def with_keras(kind):
    losses = [
        keras.distillation.LogitsDistillation(
            TEMPERATURE, keras.losses.KLDivergence()
        )
    ]
    weights = [1.0]
    if kind == "features":
        for student, teacher in LAYER_MAP.items():
            losses.append(
                keras.distillation.FeatureDistillation(
                    "mse", block_name(teacher), block_name(student)
                )
            )
            weights.append(1.0)
    teacher, student = map(without_nesting, pair())
    return keras.distillation.Distiller(
        teacher,
        student,
        losses,
        distillation_loss_weights=weights,
        student_loss_weight=0.5,
    )


def without_nesting(classifier):
    """Returns the same layers in one model, without a nested one."""
    backbone = classifier.backbone
    outputs = backbone.output["pooled_output"]
    logits = classifier.get_layer("logits")(outputs)
    return keras.Model(backbone.input, logits)


def block_name(number):
    """Returns the name of a block's layer; blocks count from 1."""
    return f"transformer_layer_{number - 1}"


def update(model, options):
    """Returns a function for one step, compiled as in `fit`."""
    batch = random_batch(
        options.batch_size,
        options.sequence_length,
        models.student_config("bert_base_en_uncased").vocabulary_size,
    )
    model.compile(
        optimizer=AdamW(learning_rate=5e-5),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=True,
    )
    return fit_step(model, batch)


if __name__ == "__main__":
    sys.exit(main())
