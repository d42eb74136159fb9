"""TinyBERT compared with a PyTorch loop with transformers' BertModel.

    python benchmarks/pytorch.py
    python benchmarks/pytorch.py --extrapolate
    python benchmarks/pytorch.py --data-dir glue --teacher runs/sst2_teacher \\
        --general runs/tinybert_general

Both steps of TinyBERT, 6×384 to 4×312, batches of 32 rows: PyTorch with every
batch padded to 128 tokens, as the authors' code does, PyTorch on the batches
from kdkit, kdkit, and kdkit with a teacher cache. Weights and batches are
the same, and so is the loss of the first batch. In turn, round by round, in one
process. Rows are random tokens as long as SST-2's.

With --data-dir and --teacher it does the real thing: the recipe on 10,000 rows
of SST-2, three epochs of each step, in wall time to the last accuracy on dev.
kdkit's time includes reading, tokenizing, compiling, caching and saving.

The last line is a JSON object. The exit status is 1 if the speed-up over the
loop padded to 128 is below the goal or, on real rows, kdkit is less accurate; 2
if torch or transformers are missing.
"""

import argparse
import importlib.util
import json
import os
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
from measuring import MINILM, cached_outputs, median_seconds, rows_like_sst2
from pytorch_recipe import (
    BATCH_SIZE,
    EPOCHS,
    GOAL,
    NUM_BUCKETS,
    PADDED,
    STEPS,
    recipe_stage,
    whole_recipe,
)

import kdkit
from kdkit import data, models
from kdkit.training.optimizers import make_optimizer

LOSS_TOLERANCE = 1e-3  # relative
STUDENT = "tinybert_4_layer_en_uncased"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", metavar="DIR", help="GLUE's folder")
    parser.add_argument("--teacher", metavar="MODEL", help="of SST-2, BERT")
    parser.add_argument(
        "--general", metavar="RUN", help="what the student starts from"
    )
    parser.add_argument(
        "--learning-rates",
        nargs=2,
        type=float,
        metavar="R",
        help="of both steps, unless the paper's, which are for more updates",
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--extrapolate",
        action="store_true",
        help="also say how long the recipe on --rows would take",
    )
    options = parser.parse_args()
    if bool(options.data_dir) != bool(options.teacher):
        parser.error("--data-dir and --teacher go together")
    if (options.general or options.learning_rates) and not options.teacher:
        parser.error("--general and --learning-rates are of real rows")
    missing = [
        name
        for name in ("torch", "transformers")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        print(
            f"Not run: {' and '.join(missing)} missing. Install with: "
            "pip install '.[benchmarks]'"
        )
        return 2
    return whole_recipe(options) if options.teacher else steps(options)


def steps(options):
    """Steps on random rows; with the goal for the recipe's mix of them."""
    keras.utils.set_random_seed(0)
    teacher = models.student(MINILM, num_classes=2)
    student = new_student(teacher)
    rows = rows_like_sst2(5 * BATCH_SIZE, teacher.backbone.vocabulary_size)
    stream = data.BatchStream(rows, data.Buckets(BATCH_SIZE, NUM_BUCKETS))
    batches, count = stream.training(), stream.steps_per_epoch
    medians, losses = {}, {}
    for stage_name in STEPS:
        work, first = epochs(teacher, student, rows, batches, count, stage_name)
        found = median_seconds(work, options.rounds)
        medians[stage_name] = {
            name: seconds / count for name, seconds in found.items()
        }
        losses[stage_name] = first
        print(stage_name)
        for name, seconds in medians[stage_name].items():
            print(f"  {name:<22} {1000 * seconds:8.1f} ms a step")
        print(f"  losses of the first batch: {first}", flush=True)
    updates = EPOCHS * -(-options.rows // BATCH_SIZE)
    totals = {
        name: sum(updates * medians[stage][name] for stage in STEPS)
        for name in medians[STEPS[0]]
    }
    # A pass of the teacher fills the cache of both steps.
    fill = medians[STEPS[0]]["kdkit"] - medians[STEPS[0]]["kdkit, cached"]
    totals["kdkit, cached"] += max(fill, 0.0) * updates / EPOCHS
    ratio = totals["PyTorch, padded to 128"] / totals["kdkit, cached"]
    same = all(
        abs(pair["PyTorch"] / pair["kdkit"] - 1) < LOSS_TOLERANCE
        for pair in losses.values()
    )
    answer = {
        "benchmark": "pytorch",
        "median_ms_per_step": {
            stage: {
                name: round(1000 * seconds, 1)
                for name, seconds in found.items()
            }
            for stage, found in medians.items()
        },
        "first_losses": losses,
        "recipe_times_faster": round(ratio, 1),
        "goal": GOAL,
    }
    if options.extrapolate:
        answer["extrapolated"] = {
            "rows": options.rows,
            "minutes": {
                name: round(seconds / 60, 1) for name, seconds in totals.items()
            },
        }
        for name, seconds in totals.items():
            print(f"{name:<24} {seconds / 60:8.1f} minutes, extrapolated")
    print(json.dumps(answer))
    return 0 if ratio >= GOAL and same else 1


def epochs(teacher, student, rows, batches, count, stage_name):
    """Returns the epochs to time, and the first losses of both."""
    import torch_tinybert as in_torch

    stage = recipe_stage(stage_name)
    distillers = {
        name: distiller(teacher, student, stage) for name in ("run", "cached")
    }
    kernel = None
    if distillers["run"].projections:
        kernel = distillers["run"].projections[0].kernel.numpy()
    loops = {
        length: in_torch.Distillation(
            in_torch.Classifier(teacher),
            in_torch.Classifier(student),
            stage.learning_rate,
            None,
            kernel,
        )
        for length in (PADDED, None)
    }
    first = next(iter(batches))[0]
    losses = {
        "PyTorch": loops[None].first_loss(in_torch.as_tensors(first)),
        "kdkit": distillers["run"].test_on_batch(first, return_dict=True)[
            "loss"
        ],
    }

    def in_pytorch(length):
        for x, _ in batches.take(count):
            loops[length].step(in_torch.as_tensors(x, length))

    def fit(name, given):
        distillers[name].fit(
            given, steps_per_epoch=count, verbose=0, shuffle=False
        )

    cached = with_cache(distillers["cached"], rows)
    return {
        "PyTorch, padded to 128": lambda: in_pytorch(PADDED),
        "PyTorch, same batches": lambda: in_pytorch(None),
        "kdkit": lambda: fit("run", batches),
        "kdkit, cached": lambda: fit("cached", cached),
    }, {name: float(loss) for name, loss in losses.items()}


def new_student(teacher):
    """TinyBERT's student with the teacher's vocabulary."""
    return models.student(
        STUDENT,
        num_classes=2,
        vocabulary_size=teacher.backbone.vocabulary_size,
    )


def distiller(teacher, student, stage):
    """A compiled `Distiller` of a copy of the student."""
    copy = new_student(teacher)
    copy.set_weights(student.get_weights())
    made = kdkit.Distiller(teacher, copy, stage.weighted_objectives())
    made.compile(make_optimizer(stage, 1000), jit_compile=True)
    return made


def with_cache(made, rows):
    """Returns the same batches with cached teacher outputs."""
    with tempfile.TemporaryDirectory() as folder:
        outputs, _ = cached_outputs(made, rows, folder)
    return data.BatchStream(
        rows, data.Buckets(BATCH_SIZE, NUM_BUCKETS), features=outputs
    ).training()


if __name__ == "__main__":
    sys.exit(main())
