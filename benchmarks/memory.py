"""Peak memory of distillation: large vocabularies, and cached outputs.

    python benchmarks/memory.py
    python benchmarks/memory.py cache

A case compares two processes. The numbers are peaks of private memory in MiB
(RssAnon: pages of mapped files do not count). Needs Linux.

- `chunks`: one update of LightPAFF's GPT-2 student (4 blocks of 768, teacher of
  12) on 8 rows of 512 tokens, logits in chunks of 256 positions over all logits
  at once, in memory above that before the first update. Both have the same
  loss. The blocks alone, with a vocabulary of 1,000, have a share of 0.35.
- `cache`: the growth of memory while a teacher cache of TinyBERT's intermediate
  step is filled, or while a student trains from it, with 4,000 rows instead of
  1,000, over the growth of the cache.

The last line is a JSON object. The exit status is 1 if a ratio is above its
goal or the losses differ.
"""

import json
import math
import os
import subprocess
import sys
import threading

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import adapter
import keras
import numpy as np
import timing

import kdkit
from kdkit import models


def main():
    options = timing.parser(__doc__, CASES, "--part").parse_args()
    names = options.cases or CASES
    if options.part:
        work, _, sizes, _ = CASES[names[0]]
        print(json.dumps(work(sizes[int(options.part)])))
        return 0
    return timing.finish("memory", [measure(name) for name in names])


def measure(name):
    """Runs a case in two processes, and compares them."""
    _, compare, sizes, goal = CASES[name]
    parts = []
    for number in ("0", "1"):
        command = [sys.executable, __file__, name, "--part", number]
        printed = subprocess.check_output(command, text=True)
        parts.append(json.loads(printed.splitlines()[-1]))
    ratio = compare(*parts)
    parts = dict(zip(sizes, parts, strict=True))
    return timing.result(name, ratio, goal, ratio <= goal, parts=parts)


def step(chunk_size):
    """The memory of an update on logits over GPT-2's vocabulary."""
    keras.utils.set_random_seed(0)
    sizes = {"max_sequence_length": 512, "dropout": 0.0}
    teacher, student = (
        adapter.language_model(
            models.student("lightpaff_gpt2_4_layer_en", **sizes, **more)
        )
        for more in ({"num_layers": 12}, {})
    )
    distiller = kdkit.Distiller(
        teacher,
        student,
        [kdkit.Objective(kdkit.losses.LogitKLDivergence(), weight=0.4)],
        hard_label_weight=0.6,
        chunk_size=chunk_size,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    distiller.compile(keras.optimizers.AdamW(1e-4), loss, jit_compile=True)
    distiller.optimizer.build(distiller.trainable_variables)
    ids = np.random.default_rng(0).integers(0, 50257, (8, 513)).astype("int32")
    x = {"token_ids": ids[:, :-1], "padding_mask": np.ones_like(ids[:, :-1])}
    before = private_memory()
    first = distiller.train_on_batch(x, ids[:, 1:], return_dict=True)
    # The second one: without what tracing and compiling need.
    peak, _ = watched(lambda: distiller.train_on_batch(x, ids[:, 1:]))
    return {"peak": peak - before, "loss": float(first["loss"])}


def share(whole, chunks):
    """Peak memory in chunks over that of all logits."""
    same = math.isclose(whole["loss"], chunks["loss"], rel_tol=1e-5)
    return chunks["peak"] / whole["peak"] if same else math.inf


def cache(num_rows):
    """The memory of filling a teacher cache, and of an epoch from it."""
    keras.utils.set_random_seed(0)
    sizes = {"num_layers": 2, "vocabulary_size": 5000}
    teacher, student = (
        models.student(name, num_classes=2, **sizes)
        for name in ("bert_base_en_uncased", "tinybert_4_layer_en_uncased")
    )
    rows, stage = (
        timing.rows_like_sst2(num_rows, 5000),
        adapter.stage("tinybert"),
    )
    distiller, _ = adapter.distiller(stage, teacher, student)
    distiller.compile(adapter.optimizer(stage), jit_compile=False)
    filling, (outputs, size) = watched(
        lambda: adapter.cached_outputs(distiller, rows)
    )
    batches, steps = adapter.batches(rows, (32, 8), outputs)
    fit = {"steps_per_epoch": steps, "verbose": 0, "shuffle": False}
    training, _ = watched(lambda: distiller.fit(batches, **fit))
    return {"filling": filling, "training": training, "cache": size / 2**20}


def growth(small, large):
    """The larger growth of memory over the growth of the cache."""
    more = {name: large[name] - small[name] for name in small}
    return max(more["filling"], more["training"]) / more["cache"]


def watched(work):
    """Returns the largest private memory during the work, and its result."""
    done, seen = threading.Event(), [0.0]

    def look():
        while not done.wait(0.02):
            seen.append(private_memory())

    thread = threading.Thread(target=look)
    thread.start()
    result = work()
    done.set()
    thread.join()
    return max(seen), result


def private_memory():
    """The process's private memory in MiB."""
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    return int(status["RssAnon"].split()[0]) / 1024


# What each of two processes runs, their comparison, sizes, the highest ratio.
CASES = {
    "chunks": (step, share, (None, 256), 1 / 3),
    "cache": (cache, growth, (1000, 4000), 0.05),
}

if __name__ == "__main__":
    sys.exit(main())
