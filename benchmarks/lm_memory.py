"""Peak memory of a step on logits over a large vocabulary, whole and in chunks.

    python benchmarks/lm_memory.py

One update of LightPAFF's GPT-2 student (4 blocks of 768) from a teacher of 12
blocks, soft labels and labels, on 8 rows of 512 random tokens, with GPT-2's
vocabulary of 50,257: once with all logits, once with `chunk_size`, and once
with a vocabulary of 1,000 in chunks, which shows the memory of the blocks
alone, a lower bound. Each way is a separate process. The number is the peak
memory during the second step, minus the memory before the first one, when
weights and optimizer slots existed: memory that a compiled step holds for the
next one counts, memory for tracing and compiling does not. The loss is the
first step's. Needs Linux.

The last line is a JSON object. The exit status is 1 if the share of memory is
above the goal or the losses differ.
"""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from kdkit.recipes.lightpaff import CHUNK_SIZE

GOAL = 1 / 3
LOSS_TOLERANCE = 1e-5
STUDENT = "lightpaff_gpt2_4_layer_en"
TEACHER_LAYERS = 12


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--sequence-length", type=int, default=512)
    parser.add_argument("--chunk-size", type=int, default=CHUNK_SIZE)
    parser.add_argument("--vocabulary-size", type=int, default=50257)
    parser.add_argument("--no-jit", action="store_true", help="without XLA")
    parser.add_argument("--one-way", choices=["whole", "chunks"])
    options = parser.parse_args()
    if options.one_way:
        print(json.dumps(measure_step(options)))
        return 0
    found = {}
    for way, *more in (
        ("whole",),
        ("chunks",),
        ("blocks", "--vocabulary-size", "1000"),
    ):
        of_way = "whole" if way == "whole" else "chunks"
        output = subprocess.run(
            [sys.executable, *sys.argv, *more, "--one-way", of_way],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        found[way] = json.loads(output.splitlines()[-1])
        print(
            f"{way:<8} {found[way]['megabytes']:8.0f} MB more than before, "
            f"loss {found[way]['loss']:.6f}"
        )
    whole, chunks = found["whole"], found["chunks"]
    share = chunks["megabytes"] / whole["megabytes"]
    difference = abs(chunks["loss"] - whole["loss"]) / whole["loss"]
    print(
        json.dumps(
            {
                "benchmark": "lm_memory",
                "student": STUDENT,
                "teacher_layers": TEACHER_LAYERS,
                "vocabulary_size": options.vocabulary_size,
                "batch_size": options.batch_size,
                "sequence_length": options.sequence_length,
                "chunk_size": options.chunk_size,
                "megabytes": {
                    way: round(values["megabytes"])
                    for way, values in found.items()
                },
                "share": round(share, 3),
                "share_of_blocks": round(
                    found["blocks"]["megabytes"] / whole["megabytes"], 3
                ),
                "goal": round(GOAL, 3),
                "relative_difference_of_losses": float(f"{difference:.1e}"),
                "tolerance": LOSS_TOLERANCE,
            }
        )
    )
    return 0 if share <= GOAL and difference <= LOSS_TOLERANCE else 1


def measure_step(options):
    """Returns the memory for one step, and its loss."""
    import keras
    import numpy as np

    import kdkit
    from kdkit import models

    keras.utils.set_random_seed(0)
    sizes = {
        "vocabulary_size": options.vocabulary_size,
        "max_sequence_length": options.sequence_length,
        "dropout": 0.0,
    }
    teacher, student = (
        models.language_model(models.student(STUDENT, **sizes, **more))
        for more in ({"num_layers": TEACHER_LAYERS}, {})
    )
    chunk_size = options.chunk_size if options.one_way == "chunks" else None
    distiller = kdkit.Distiller(
        teacher,
        student,
        [kdkit.Objective(kdkit.losses.LogitKLDivergence(), weight=0.4)],
        hard_label_weight=0.6,
        chunk_size=chunk_size,
    )
    optimizer = keras.optimizers.AdamW(1e-4)
    distiller.compile(
        optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=not options.no_jit,
    )
    optimizer.build(distiller.trainable_variables)
    tokens = np.random.default_rng(0).integers(
        0,
        options.vocabulary_size,
        (options.batch_size, options.sequence_length + 1),
    )
    x = {
        "token_ids": tokens[:, :-1].astype("int32"),
        "padding_mask": np.ones_like(tokens[:, :-1], "int32"),
    }
    forget_peak()
    before = megabytes("VmRSS")
    logs = distiller.train_on_batch(x, tokens[:, 1:], return_dict=True)
    forget_peak()
    distiller.train_on_batch(x, tokens[:, 1:])
    return {
        "megabytes": megabytes("VmHWM") - before,
        "loss": float(logs["loss"]),
    }


def forget_peak():
    """Frees unused memory, and resets the peak to the rest."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def megabytes(name):
    """Returns the process's current or peak memory."""
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields[name].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main())
