"""The time of a distillation step by kind of operation.

    python benchmarks/profile_step.py
    python benchmarks/profile_step.py --data-dir glue --teacher runs/teacher \\
        --profile-dir runs/profile

TinyBERT's intermediate step, 6×384 to 4×312, on rows as long as SST-2's, by
`Distiller.fit` with Keras' own `TensorBoard(profile_batch=...)`: the time of
each operation itself, on all threads, as xprof reads it from the profile. XLA
compiles only the update (`jit_compile=update`), because the profile contains no
operations of compiled code; with --jit-compile false it also contains those of
the update. With --data-dir and --teacher, rows and teacher are real. With
--profile-dir the profile stays, for `tensorboard --logdir` with xprof's plugin.

The last line is a JSON object. The exit status is 1 if reading and padding rows
takes more than the goal, or if a step was traced again; 2 if xprof is missing.
"""

import argparse
import collections
import importlib.util
import json
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
from measuring import count_calls, teacher_and_rows

import kdkit
from kdkit import data, models
from kdkit.recipes import RECIPES
from kdkit.tasks import get_task
from kdkit.training.optimizers import make_optimizer

GOAL = 0.02
STUDENT = "tinybert_4_layer_en_uncased"
LONGEST = 128
FIRST = 20  # unprofiled steps, in which every length occurs
SHOWN = 12
STEP = "train_step"
KINDS = {
    "matrix products": ("MatMul", "Einsum"),
    "input": ("Dataset", "Iterator"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", metavar="DIR", help="GLUE's folder")
    parser.add_argument("--teacher", metavar="MODEL", help="of SST-2, BERT")
    parser.add_argument("--rows", type=int, default=640)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--profile-dir", metavar="DIR")
    parser.add_argument(
        "--jit-compile", choices=("update", "false"), default="update"
    )
    options = parser.parse_args()
    if bool(options.data_dir) != bool(options.teacher):
        parser.error("--data-dir and --teacher go together")
    if importlib.util.find_spec("xprof") is None:
        print("xprof is missing: pip install -e '.[benchmarks]'")
        return 2
    keras.utils.set_random_seed(0)
    kdkit.keep_freed_memory()  # as the command line does
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.profile_dir or temporary)
        traces = profile(folder, options)
        seconds = seconds_by_operation(folder)
    total = sum(seconds.values())
    for name, found in seconds.most_common(SHOWN):
        print(f"{name:<32} {found / total:6.1%}")
    shares = {
        kind: sum(
            found
            for name, found in seconds.items()
            if any(part in name for part in parts)
        )
        / total
        for kind, parts in KINDS.items()
    }
    shares["others"] = 1 - sum(shares.values())
    print(
        json.dumps(
            {
                "benchmark": "profile_step",
                "teacher": options.teacher,
                "jit_compile": options.jit_compile,
                "steps": options.steps,
                "ms_per_step": round(1000 * total / options.steps, 1),
                "shares": {name: round(one, 3) for name, one in shares.items()},
                "traced_again": traces,
                "goal": GOAL,
            }
        )
    )
    return int(shares["input"] > GOAL or traces > 0)


def profile(folder, options):
    """Trains; returns how often the step was traced while it was profiled."""
    counts = {STEP: 0}
    count_calls(kdkit.Distiller, STEP, counts)
    teacher, rows = teacher_and_rows(options, LONGEST)
    student = models.student(
        STUDENT,
        num_classes=2,
        vocabulary_size=teacher.backbone.vocabulary_size,
    )
    (stage, _) = RECIPES["tinybert"].stages_for(get_task("sst2"))
    distiller = kdkit.Distiller(teacher, student, stage.weighted_objectives())
    optimizer = make_optimizer(stage, 1000, options.jit_compile == "update")
    distiller.compile(optimizer, jit_compile=False)
    batching = data.Buckets(options.batch_size, num_buckets=4)
    batches = data.BatchStream(rows, batching).training()
    traces = []
    note = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: traces.append(counts[STEP])
    )
    distiller.fit(
        batches,
        steps_per_epoch=FIRST + options.steps + 1,
        verbose=0,
        shuffle=False,
        callbacks=[
            note,
            keras.callbacks.TensorBoard(
                str(folder),
                write_graph=False,
                profile_batch=(FIRST, FIRST + options.steps - 1),
            ),
        ],
    )
    return traces[-1] - traces[FIRST - 1]


def seconds_by_operation(folder):
    """Returns the time of each operation type itself, on all threads."""
    from xprof.convert import raw_to_tool_data

    (file,) = folder.rglob("*.xplane.pb")
    found, _ = raw_to_tool_data.xspace_to_tool_data(
        [str(file)], "framework_op_stats", {}
    )
    # Tables with idle time and without.
    (table,) = json.loads(found)[-1:]
    columns = [column["id"] for column in table["cols"]]
    seconds = collections.Counter()
    for row in table["rows"]:
        cells = dict(
            zip(columns, (cell["v"] for cell in row["c"]), strict=True)
        )
        if cells["type"] != "IDLE":
            seconds[cells["type"]] += cells["total_self_time"] / 1e6
    return seconds


if __name__ == "__main__":
    sys.exit(main())
