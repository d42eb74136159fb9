"""TinyBERT's recipe on rows of SST-2, by a PyTorch loop and by kdkit."""

import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import keras
import numpy as np

from kdkit import data, models
from kdkit.io.machine import keep_freed_memory
from kdkit.recipes import RECIPES
from kdkit.settings import to_dict
from kdkit.tasks import get_task
from kdkit.training import (
    CacheSettings,
    DataSettings,
    DistillSettings,
    ModelSettings,
)
from kdkit.training.making import make_model
from kdkit.training.task_data import load_data

GOAL = 10.0
PADDED = 128
BATCH_SIZE = 32
NUM_BUCKETS = 4
# For a whole run: nothing is compiled for each length of batches.
NUM_BUCKETS_OF_RUN = 16
STEPS = ("intermediate_layer", "prediction_layer")
EPOCHS = 3  # of each step
SIZES_OF_STUDENT = {
    "num_layers": 4,
    "hidden_dim": 312,
    "num_heads": 12,
    "intermediate_dim": 1200,
}


def recipe_stage(name):
    """A stage of TinyBERT."""
    stages = RECIPES["tinybert"].stages_for(get_task("sst2"))
    return next(stage for stage in stages if stage.name == name)


def whole_recipe(options):
    """The recipe on real rows, in wall time, with accuracies on dev."""
    keep_freed_memory()  # for PyTorch too, as in kdkit's command line
    found = {  # the fastest first, to see errors early
        "kdkit, cached": in_kdkit(options),
        "PyTorch, same batches": in_pytorch(options, None),
        "PyTorch, padded to 128": in_pytorch(options, PADDED),
    }
    for name, result in found.items():
        print(
            f"{name:<24} {result['minutes']:8.1f} minutes, accuracy "
            f"{result['accuracy']:.4f} on dev"
        )
    slow, fast = found["PyTorch, padded to 128"], found["kdkit, cached"]
    ratio = slow["minutes"] / fast["minutes"]
    print(
        json.dumps(
            {
                "benchmark": "pytorch",
                "teacher": options.teacher,
                "learning_rates": [
                    stage.learning_rate
                    for stage in recipe_settings(options).stages
                ],
                "rows": options.rows,
                "epochs": {stage: EPOCHS for stage in STEPS},
                "results": found,
                "times_faster": round(ratio, 1),
                "goal": GOAL,
            }
        )
    )
    good = ratio >= GOAL and fast["accuracy"] >= slow["accuracy"]
    return 0 if good else 1


def recipe_settings(options):
    """Returns kdkit's settings for the recipe on the loop's rows."""
    stages = map(recipe_stage, STEPS)
    if options.learning_rates:
        stages = (
            dataclasses.replace(stage, learning_rate=rate)
            for stage, rate in zip(stages, options.learning_rates, strict=True)
        )
    student = ModelSettings(**SIZES_OF_STUDENT)
    if options.general:
        student = ModelSettings(checkpoint=options.general)
    return DistillSettings(
        recipe="tinybert",
        data=DataSettings(
            "sst2",
            options.data_dir,
            PADDED,
            max_train_rows=options.rows,
            num_buckets=NUM_BUCKETS_OF_RUN,
        ),
        jit_compile="update",
        teacher=options.teacher,
        student=student,
        stages=tuple(
            dataclasses.replace(stage, epochs=EPOCHS, batch_size=BATCH_SIZE)
            for stage in stages
        ),
    )


def in_kdkit(options):
    """Runs `kdkit distill` in a separate process."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        config, run = pathlib.Path(folder, "config.json"), f"{folder}/run"
        settings = dataclasses.replace(
            recipe_settings(options), cache=CacheSettings(f"{folder}/cache")
        )
        config.write_text(json.dumps(to_dict(settings)))
        subprocess.run(
            [sys.executable, "-m", "kdkit", "distill"]
            + ["--config", str(config), "--run-dir", run],
            stdout=sys.stderr,
            check=True,
        )
        seconds = time.perf_counter() - start
        lines = pathlib.Path(run, "metrics.jsonl").read_text()
    events = [json.loads(line) for line in lines.splitlines()]
    (last,) = (e for e in events if e["event"] == "run_finished")
    return {
        "minutes": seconds / 60,
        "accuracy": last["best"]["student"]["metrics"]["accuracy"],
    }


def in_pytorch(options, length):
    """The loop over both steps; the accuracy of its best last epoch."""
    import torch_tinybert as in_torch

    settings = recipe_settings(options)
    task = get_task("sst2")
    loaded = models.load_classifier(options.teacher, task.head)
    train, dev = load_data(task, settings.data, loaded.tokenizer, seed=0)
    keras.utils.set_random_seed(0)
    student, _ = make_model(settings.student, task, loaded)
    teacher = in_torch.Classifier(loaded.model)
    student = in_torch.Classifier(student)
    start = time.perf_counter()
    accuracies = []
    print(f"PyTorch, {'padded to 128' if length else 'same batches'}:")
    for stage in settings.stages:
        kernel = None
        if stage.name == STEPS[0]:
            shape = (student.width, teacher.width)
            kernel = keras.initializers.GlorotUniform(0)(shape).numpy()
        stream = data.BatchStream(
            train.encoded, data.Buckets(BATCH_SIZE, settings.data.num_buckets)
        )
        batches, count = stream.training(), stream.steps_per_epoch
        updates = EPOCHS * count if stage.schedule == "linear" else None
        loop = in_torch.Distillation(
            teacher, student, stage.learning_rate, updates, kernel
        )
        for number, (x, _) in enumerate(batches.take(EPOCHS * count), start=1):
            loop.step(in_torch.as_tensors(x, length))
            if number % count:
                continue
            minutes = (time.perf_counter() - start) / 60
            line = f"  {stage.name}, epoch {number // count}/{EPOCHS}, "
            line += f"after {minutes:.1f} minutes"
            if stage.name == STEPS[1]:
                accuracies.append(accuracy(student, dev, length))
                line += f": accuracy {accuracies[-1]:.4f} on dev"
            print(line, flush=True)
    return {
        "minutes": (time.perf_counter() - start) / 60,
        "accuracy": max(accuracies),
    }


def accuracy(student, dev, length):
    """The share of dev's rows that a classifier in PyTorch gets right."""
    import torch_tinybert as in_torch

    stream = data.BatchStream(dev, data.Buckets(BATCH_SIZE))
    logits = [
        in_torch.predict(student, in_torch.as_tensors(x, length))
        for x, _ in stream.evaluation()
    ]
    order = np.concatenate([rows for rows, _ in stream.evaluation_batches])
    right = np.concatenate(logits).argmax(-1) == dev.labels[order]
    return float(right.mean())
