"""Checks memory, open files and traces in a long run of a small model.

    python benchmarks/soak.py
    python benchmarks/soak.py --steps 2000

`kdkit distill tinybert` on generated sentences: two stages of a tiny student,
with the teacher's outputs from a cache, an evaluation and a checkpoint after
each epoch of 100 steps. After each epoch the process records its private memory
(RssAnon in Linux), its open files, and how often a step was traced. For each
stage, the medians of the first and the last fifth of its epochs are compared.

The last line is a JSON object. The exit status is 1 if memory grew by more than
the goal per 10,000 steps, files stayed open, a step was traced again, or fewer
steps ran than requested.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
from measuring import count_calls

import kdkit
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.training import CacheSettings, distill, train_teacher
from kdkit.training.stage_fit import KerasLoop

STEPS = 20_000
STEPS_PER_EPOCH, BATCH_SIZE = 100, 8
GOAL = 10.0  # MB in 10,000 steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    kdkit.keep_freed_memory()  # as the command line does
    seen, traces = [], {"train_step": 0, "test_step": 0}
    with tempfile.TemporaryDirectory() as folder:
        train_teacher(smoke.TEACHER, f"{folder}/teacher")
        watch(seen, traces)
        distill(settings(options.steps, folder), f"{folder}/run")
    stages = {}
    for name in dict.fromkeys(entry["stage"] for entry in seen):
        entries = [entry for entry in seen if entry["stage"] == name]
        stages[name] = compare(entries)
        print(f"{name}: {json.dumps(stages[name])}", flush=True)
    print(
        json.dumps(
            {
                "benchmark": "soak",
                "steps": len(seen) * STEPS_PER_EPOCH,
                "steps_per_epoch": STEPS_PER_EPOCH,
                "stages": stages,
                "goal": GOAL,
            }
        )
    )
    return int(
        len(seen) * STEPS_PER_EPOCH < options.steps
        or any(
            stage["megabytes_per_10000_steps"] > GOAL
            or stage["files"][1] > stage["files"][0]
            or stage["traced_again"]
            for stage in stages.values()
        )
    )


def settings(steps, folder):
    """The smoke run of the recipe with a cache and as many epochs as asked."""
    plain = smoke.distillation(RECIPES["tinybert"])
    data = dataclasses.replace(
        plain.data, max_train_rows=STEPS_PER_EPOCH * BATCH_SIZE
    )
    epochs = max(5, steps // STEPS_PER_EPOCH // len(plain.stages))
    return dataclasses.replace(
        plain,
        data=data,
        teacher=f"{folder}/teacher",
        cache=CacheSettings(f"{folder}/cache"),
        stages=tuple(
            dataclasses.replace(stage, epochs=epochs, batch_size=BATCH_SIZE)
            for stage in plain.stages
        ),
    )


def watch(seen, traces):
    """Records memory, open files and traces after each epoch of a stage.

    Args:
        seen: list to which a dict per epoch is appended.
        traces: dict from the name of a step to how often it was traced.
    """
    for name in traces:
        count_calls(kdkit.Distiller, name, traces)
    fit = KerasLoop.fit

    def watched(self, *arguments, callbacks, **named):
        stage = f"stage {len({entry['stage'] for entry in seen}) + 1}"

        def take_note(epoch, logs):
            entry = {"stage": stage, **measure()}
            seen.append({**entry, "traces": sum(traces.values())})
            if epoch % 10 == 9:
                print(
                    f"{stage}, epoch {epoch + 1}: {entry['megabytes']:.1f} MB, "
                    f"{entry['files']} files",
                    flush=True,
                )

        note = keras.callbacks.LambdaCallback(on_epoch_end=take_note)
        return fit(self, *arguments, callbacks=[*callbacks, note], **named)

    KerasLoop.fit = watched


def measure():
    """Returns the process's memory in MB, and its number of open files."""
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    return {
        "megabytes": int(status["RssAnon"].split()[0]) / 1024,
        "files": len(os.listdir("/proc/self/fd")),
    }


def compare(entries):
    """Compares the first fifth of the epochs after epoch 1 with the last."""
    fifth = max(1, len(entries) // 5)
    parts = entries[1 : 1 + fifth], entries[-fifth:]

    def medians(name):
        return [
            round(statistics.median(entry[name] for entry in part), 1)
            for part in parts
        ]

    megabytes = medians("megabytes")
    between = STEPS_PER_EPOCH * (len(entries) - 1 - fifth)
    growth = (megabytes[1] - megabytes[0]) / max(between, 1) * 10_000
    return {
        "epochs": len(entries),
        "megabytes": megabytes,
        "megabytes_per_10000_steps": round(growth, 2),
        "files": medians("files"),
        "traced_again": entries[-1]["traces"] - entries[0]["traces"],
    }


if __name__ == "__main__":
    sys.exit(main())
