"""Memory for filling a teacher cache and training from it, by data set size.

    python benchmarks/cached_memory.py

TinyBERT's intermediate step on a teacher of two blocks of 768, over data sets
of two sizes, of SST-2's lengths. Filling and training are separate processes.
The main number is a process's peak private memory (RssAnon in Linux). Mapped
pages of the cache's files, which the system can reclaim, are reported
separately.

The last line is a JSON object. The exit status is 1 if the growth in memory is
more than the goal's share of the growth of the cache.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading

from kdkit.training.optimizers import make_optimizer

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

GOAL = 0.05
ROWS = (1000, 4000)
BATCH_SIZE = 32
STUDENT = "tinybert_4_layer_en_uncased"
VOCABULARY = 5000
SECONDS_BETWEEN = 0.05


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs=2, default=ROWS)
    parser.add_argument("--one", choices=["filling", "training"])
    parser.add_argument("--folder")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(work(options)))
        return 0
    found = {}
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            for part in ("filling", "training"):
                found[part, rows] = measured(rows, part, folder)
    small, large = options.rows
    held = {}
    for part in ("filling", "training"):
        more = {
            name: found[part, large][name] - found[part, small][name]
            for name in ("cache", "own")
        }
        held[part] = more["own"] / more["cache"]
    print(
        json.dumps(
            {
                "benchmark": "cached_memory",
                "megabytes": {
                    f"{part}, {rows} rows": {
                        name: round(value) for name, value in values.items()
                    }
                    for (part, rows), values in found.items()
                },
                "share_held": {
                    part: round(share, 3) for part, share in held.items()
                },
                "goal": GOAL,
            }
        )
    )
    return 1 if max(held.values()) > GOAL else 0


def measured(rows, part, folder):
    """Returns the memory of a separate process."""
    output = subprocess.run(
        [
            sys.executable,
            __file__,
            "--one",
            part,
            "--folder",
            folder,
            "--rows",
            str(rows),
            str(rows),
        ],  # fmt: skip
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    values = json.loads(output.splitlines()[-1])
    print(
        f"{part:<9} {rows:6d} rows: {values['own']:6.0f} MB private, "
        f"{values['mapped']:6.0f} MB of files, cache of "
        f"{values['cache']:6.0f} MB",
        flush=True,
    )
    return values


def work(options):
    """Fills the cache, or trains an epoch from it, and watches the memory."""
    import keras
    from measuring import cached_outputs, rows_like_sst2

    import kdkit
    from kdkit import data, models
    from kdkit.recipes import RECIPES
    from kdkit.tasks import get_task

    keras.utils.set_random_seed(0)
    sizes = {"num_classes": 2, "vocabulary_size": VOCABULARY}
    teacher = models.student("bert_base_en_uncased", num_layers=2, **sizes)
    student = models.student(STUDENT, num_layers=2, **sizes)
    rows = rows_like_sst2(options.rows[0], VOCABULARY)
    (stage, _) = RECIPES["tinybert"].stages_for(get_task("sst2"))
    distiller = kdkit.Distiller(teacher, student, stage.weighted_objectives())
    with Watch() as watch:
        outputs, size = cached_outputs(distiller, rows, options.folder)
        if options.one == "training":
            distiller.compile(make_optimizer(stage, 1000), jit_compile=False)
            stream = data.BatchStream(
                rows, data.Buckets(BATCH_SIZE), features=outputs
            )
            distiller.fit(
                stream.training(),
                steps_per_epoch=stream.steps_per_epoch,
                verbose=0,
                shuffle=False,
            )
    return {**watch.most, "cache": size / 2**20}


class Watch:
    """The process's peak memory inside the block, in MiB."""

    def __init__(self):
        self.most = {"own": 0.0, "mapped": 0.0}
        self._done = threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._done.set()
        self._thread.join()

    def _look(self):
        while not self._done.wait(SECONDS_BETWEEN):
            with open("/proc/self/status") as file:
                status = dict(line.split(":", 1) for line in file)
            for name, field in (("own", "RssAnon"), ("mapped", "RssFile")):
                megabytes = int(status[field].split()[0]) / 1024
                self.most[name] = max(self.most[name], megabytes)


if __name__ == "__main__":
    sys.exit(main())
