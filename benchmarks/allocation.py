"""What keeping freed memory saves of a training step, and what it holds.

    python benchmarks/allocation.py
    python benchmarks/allocation.py --jit-compile false

Trains TinyBERT's 4×312 student on labels, on rows of SST-2's lengths, in
processes of their own, in turn: as glibc gives memory back, and as
`kdkit.keep_freed_memory` keeps it. Told beside the time of a step: how many
pages the system had to hand out for it, and the most memory that the process
had.

The last line is a JSON object. The exit status is 1 where keeping is slower.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

from kdkit.training.optimizers import make_optimizer

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

STUDENT = "tinybert_4_layer_en_uncased"
VOCABULARY = 30522
WAYS = ("given back", "kept")
UNMEASURED = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--jit-compile", default="update", choices=["update", "true", "false"]
    )
    parser.add_argument("--one", choices=WAYS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(work(options)))
        return 0
    found = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            found[way].append(measured(way))
    medians = {
        way: {
            name: statistics.median(values[name] for values in all_)
            for name in all_[0]
        }
        for way, all_ in found.items()
    }
    for way, values in medians.items():
        print(
            f"{way:<11} {values['ms']:7.1f} ms a step, {values['pages']:7.0f} "
            f"pages, {values['peak_mb']:6.0f} MB at most"
        )
    given, kept = (medians[way] for way in WAYS)
    print(
        json.dumps(
            {
                "benchmark": "allocation",
                "student": STUDENT,
                "jit_compile": options.jit_compile,
                "medians": medians,
                "faster": round(given["ms"] / kept["ms"], 2),
                "memory": round(kept["peak_mb"] / given["peak_mb"], 2),
            }
        )
    )
    return 0 if kept["ms"] <= given["ms"] else 1


def measured(way):
    """What a process of its own says of its steps."""
    output = subprocess.run(
        [sys.executable, __file__, "--one", way, *sys.argv[1:]],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return json.loads(output.splitlines()[-1])


def work(options):
    """Trains for some steps."""
    import keras
    from measuring import rows_like_sst2

    import kdkit
    from kdkit import data
    from kdkit.recipes import RECIPES
    from kdkit.taps import select_inputs
    from kdkit.tasks import get_task

    if options.one == "kept" and not kdkit.keep_freed_memory():
        sys.exit("No glibc here, or the environment says how memory is kept.")
    keras.utils.set_random_seed(0)
    student = kdkit.models.student(
        STUDENT, num_classes=2, vocabulary_size=VOCABULARY
    )
    (_, stage) = RECIPES["tinybert"].stages_for(get_task("sst2"))
    student.compile(
        make_optimizer(stage, 1000, fused=options.jit_compile == "update"),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[],
        jit_compile=options.jit_compile == "true",
    )
    steps = UNMEASURED + options.steps
    batches = data.BatchStream(
        rows_like_sst2(steps * options.batch_size, VOCABULARY),
        data.Buckets(options.batch_size, num_buckets=3),
    ).training()
    watch = Watch()
    student.fit(
        batches.map(lambda x, y: (select_inputs(student, x), y)),
        steps_per_epoch=steps,
        verbose=0,
        shuffle=False,
        callbacks=[
            keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda step, logs: watch.note()
            )
        ],
    )
    return watch.summary()


class Watch:
    """Times and pages of each step."""

    def __init__(self):
        self.notes = []

    def note(self):
        pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self.notes.append((time.perf_counter(), pages))

    def summary(self):
        """Medians of the steps that are measured."""
        notes = self.notes[UNMEASURED - 1 :]
        steps = list(zip(notes, notes[1:], strict=False))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {
            "ms": round(
                1000 * statistics.median(b[0] - a[0] for a, b in steps), 1
            ),
            "pages": statistics.median(b[1] - a[1] for a, b in steps),
            "peak_mb": round(peak / 1024),
        }


if __name__ == "__main__":
    sys.exit(main())
