"""TinyBERT compared with a PyTorch loop over transformers' BERT.

    python benchmarks/against_pytorch.py
    python benchmarks/against_pytorch.py --data-dir glue \\
        --teacher runs/teacher --general runs/tinybert_general

Both steps of TinyBERT, 6×384 to 4×312, batches of 32 rows: kdkit with a teacher
cache, PyTorch on the same batches ("bucketed"), and PyTorch with every batch
padded to 128 tokens, as the authors' code does ("padded"). Weights and batches
are the same, and so is the loss of the first batch. A round is an epoch of both
steps of each, in turn, from a cache that is filled. Rows are random tokens as
long as SST-2's.

With --data-dir, --teacher and --general (the run or preset that the student
starts from) it does the real thing: three epochs of each step on 10,000 rows of
SST-2, from the inputs to the last accuracy on dev. kdkit's time includes the
start of the process, reading, compiling, filling the cache and saving.

The last line is a JSON object. The exit status is 1 if a speed-up is below its
goal, if first losses differ or if kdkit is less accurate than the padded loop.
Needs the extra `references`.
"""

import functools
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import adapter
import keras
import numpy as np
import timing
import torch_tinybert as in_torch

import kdkit
from kdkit import models

STUDENT = "tinybert_4_layer_en_uncased"
PADDED, BATCH_SIZE = 128, 32
ROWS, EPOCHS = 10_000, 3  # of the real thing
RATES = (5e-4, 1e-4)  # larger than the paper's, for fewer updates
GOALS = {"padded": 10.0, "bucketed": 1.5}


def main():
    parser = timing.parser(__doc__, (), "--data-dir", "--teacher", "--general")
    options = parser.parse_args()
    given = [options.data_dir, options.teacher, options.general]
    if any(given) and not all(given):
        parser.error("--data-dir, --teacher and --general go together")
    keras.utils.set_random_seed(0)
    seconds, is_right, more = whole_recipe(options) if any(given) else epochs()
    results = []
    for name, goal in GOALS.items():
        faster = timing.ratio(seconds, name, ["kdkit"])
        is_met = faster >= goal and is_right
        results.append(timing.result(name, faster, goal, is_met))
    more["median_ms"] = timing.medians(seconds)
    return timing.finish("against_pytorch", results, **more)


def epochs():
    """Times an epoch of both steps on random rows."""
    teacher = models.student(timing.MINILM, num_classes=2)
    vocabulary_size = timing.MINILM["vocabulary_size"]
    rows = timing.rows_like_sst2(5 * BATCH_SIZE, vocabulary_size)
    batches, count = adapter.batches(rows, (BATCH_SIZE, 4))
    first, _ = next(iter(batches))
    work, losses = {name: [] for name in ("kdkit", *GOALS)}, []
    for stage in (adapter.stage("tinybert", number) for number in (0, 1)):
        student = models.student(STUDENT, 2, vocabulary_size=vocabulary_size)
        distiller, _ = adapter.distiller(stage, teacher, student)
        distiller.compile(adapter.optimizer(stage), jit_compile=True)
        losses.append(distiller.test_on_batch(first, return_dict=True)["loss"])
        for name, length in (("padded", PADDED), ("bucketed", None)):
            loop = in_torch.Distillation(
                in_torch.read(teacher),
                in_torch.read(student),
                stage.learning_rate,
                None,
                adapter.projection(distiller),
            )
            work[name].append(
                functools.partial(train, loop, batches, count, length)
            )
        losses.append(loop.first_loss(in_torch.as_tensors(first)))
        outputs, _ = adapter.cached_outputs(distiller, rows)
        cached, _ = adapter.batches(rows, (BATCH_SIZE, 4), outputs)
        fit = {"steps_per_epoch": count, "verbose": 0, "shuffle": False}
        work["kdkit"].append(functools.partial(distiller.fit, cached, **fit))
    seconds = timing.in_turns(
        {
            name: lambda steps=steps: [step() for step in steps]
            for name, steps in work.items()
        }
    )
    pairs = zip(losses[::2], losses[1::2], strict=True)
    same = all(
        math.isclose(*pair, rel_tol=1e-3, abs_tol=1e-6) for pair in pairs
    )
    return seconds, same, {"first_losses": list(map(float, losses))}


def train(loop, batches, count, length):
    """Trains a PyTorch loop on `count` batches."""
    for x, _ in itertools.islice(batches, count):
        loop.step(in_torch.as_tensors(x, length))


def whole_recipe(options):
    """Times the recipe on real rows, with accuracies on dev."""
    kdkit.keep_freed_memory()  # for PyTorch too, as in the command line
    found = {
        "kdkit": in_kdkit(options),
        "bucketed": in_pytorch(options, None),
        "padded": in_pytorch(options, PADDED),
    }
    seconds = {name: [taken] for name, (taken, _) in found.items()}
    accuracies = {name: accuracy for name, (_, accuracy) in found.items()}
    is_right = accuracies["kdkit"] >= accuracies["padded"]
    return seconds, is_right, {"accuracies": accuracies, **vars(options)}


def in_kdkit(options):
    """Seconds and accuracy of `kdkit distill` in a separate process."""

    def kdkit_says(*words):
        command = [sys.executable, "-m", "kdkit", *words]
        command += ["--data-dir", options.data_dir]
        return subprocess.check_output(command, text=True).splitlines()[-1]

    with tempfile.TemporaryDirectory() as folder:
        run, start = f"{folder}/run", time.perf_counter()
        words = ["--task", "sst2", "--teacher", options.teacher]
        words += ["--general", options.general, "--cache", f"{folder}/cache"]
        fields = {"batch_size": BATCH_SIZE, "epochs": EPOCHS}
        words += adapter.recipe_fields(ROWS, RATES, **fields)
        kdkit_says("distill", "tinybert", *words, "--run-dir", run)
        seconds = time.perf_counter() - start
        metrics = json.loads(kdkit_says("evaluate", run))["metrics"]
    return seconds, metrics["accuracy"]


def in_pytorch(options, length):
    """Seconds of the loop over both steps, and its best accuracy."""
    loaded = models.load_classifier(options.teacher, 2)
    rows = {}
    for split in ("train", "dev"):
        task = kdkit.tasks.get_task("sst2")
        examples = task.load(split, options.data_dir)
        chosen = np.random.default_rng(0).permutation(len(examples))[:ROWS]
        rows[split] = adapter.batches(
            kdkit.data.encode(examples.take(chosen), loaded.tokenizer, PADDED),
            (BATCH_SIZE, 16),
        )
    teacher = in_torch.read(loaded.model)
    student = in_torch.read(models.load_classifier(options.general, 2).model)
    shape = (student.config.hidden_size, teacher.config.hidden_size)
    kernel = np.array(keras.initializers.GlorotUniform(0)(shape))
    accuracies, (batches, count) = [], rows["train"]
    start = time.perf_counter()
    for rate, is_last in zip(RATES, (False, True), strict=True):
        updates = EPOCHS * count if is_last else None
        loop = in_torch.Distillation(
            teacher, student, rate, updates, None if is_last else kernel
        )
        epochs = iter(batches)
        for _ in range(EPOCHS):
            train(loop, epochs, count, length)
            if is_last:
                accuracies.append(accuracy(student, *rows["dev"], length))
    return time.perf_counter() - start, max(accuracies)


def accuracy(student, batches, count, length):
    """The share of rows that a classifier in PyTorch gets right."""
    right = [
        in_torch.predict(student, in_torch.as_tensors(x, length)) == y.numpy()
        for x, y in batches.take(count)
    ]
    return float(np.concatenate(right).mean())


if __name__ == "__main__":
    sys.exit(main())
