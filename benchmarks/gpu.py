"""A distillation step and a whole recipe on one GPU, on any backend of Keras.

    python benchmarks/gpu.py
    python benchmarks/gpu.py --make-bundle sst2.npz --data-dir glue \\
        --teacher runs/teacher
    KERAS_BACKEND=jax python benchmarks/gpu.py --bundle sst2.npz

Needs kdkit, with TensorFlow or without it as docs/backends.md installs it, on a
GPU or without one; if `KERAS_BACKEND` is not set, on the first of TensorFlow,
JAX and PyTorch that is installed. It measures, in turn and round by round, one
update of TinyBERT's intermediate step against its floor (an update of the
student on labels, with the teacher's forward pass in the same step), and the
same update with the teacher's outputs read from memory against that of the
student alone. All run as in Keras' `fit`, over one repeated batch. Then it
trains a student by TinyBERT's two stages on arrays.

Without arguments rows are generated and the models tiny, so that the ratios
show the framework's overhead and not the speed of a GPU. A bundle contains the
examples of SST-2, the teacher in half precision and the student's sizes, in one
file of at most 60 MB for a teacher as large as MiniLM; making one needs all of
kdkit.

The last line is a JSON object. With a bundle the exit status is 1 if a ratio is
above its goal.
"""

import argparse
import dataclasses
import importlib.util
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
if "KERAS_BACKEND" not in os.environ:
    os.environ["KERAS_BACKEND"] = next(
        name
        for name in ("tensorflow", "jax", "torch")
        if importlib.util.find_spec(name)
    )
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import keras
import numpy as np
from gpu_bundle import SPLITS, make_bundle, read_bundle
from measuring import median_seconds

import kdkit
from kdkit.recipes import RECIPES, run_on_arrays
from kdkit.taps import TEACHER_OUTPUTS, select_inputs, tapped

GOALS = {"step_over_floor": 1.05, "cached_over_plain": 1.15}
STUDENT = "tinybert_4_layer_en_uncased"
TINY = {"family": "bert", "vocabulary_size": 64, "max_sequence_length": 32}
TINY_TEACHER = {
    "num_layers": 2,
    "hidden_dim": 48,
    "num_heads": 4,
    "intermediate_dim": 96,
}
TINY_STUDENT = {
    "num_layers": 1,
    "hidden_dim": 24,
    "num_heads": 4,
    "intermediate_dim": 48,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", metavar="FILE", help="see below")
    parser.add_argument("--make-bundle", metavar="FILE", help="write one, end")
    parser.add_argument("--data-dir", metavar="DIR", help="GLUE's folder")
    parser.add_argument("--teacher", metavar="MODEL", help="of SST-2")
    parser.add_argument("--student", default=STUDENT, metavar="PRESET")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--sequence-length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20, help="in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--epochs",
        type=int,
        nargs=2,
        metavar=("N", "M"),
        help="of the two stages (the recipe's; 4 and 2 of generated rows)",
    )
    parser.add_argument("--dtype-policy", default="float32")
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    if options.make_bundle:
        if not (options.data_dir and options.teacher):
            parser.error("--make-bundle needs --data-dir and --teacher")
        make_bundle(options)
        return 0
    keras.config.set_dtype_policy(options.dtype_policy)
    if options.bundle:
        teacher, student_sizes, rows = read_bundle(options)
    else:
        options.batch_size, options.sequence_length = 16, 16
        options.steps, options.rounds = 10, 3
        options.epochs = options.epochs or [4, 2]
        teacher, student_sizes, rows = generated(options)
    x, y = rows["train"]
    batch = (
        {name: array[: options.batch_size] for name, array in x.items()},
        y[: options.batch_size],
    )
    report = {
        "benchmark": "gpu",
        "backend": keras.config.backend(),
        "device": device(),
        "dtype_policy": options.dtype_policy,
        "bundle": options.bundle,
        "batch_size": options.batch_size,
        "sequence_length": options.sequence_length,
        **steps(teacher, student_sizes, batch, options),
        "recipe": recipe(teacher, student_sizes, rows, options),
        "goals": GOALS if options.bundle else {},
    }
    print(json.dumps(report))
    return int(
        any(report[name] > goal for name, goal in report["goals"].items())
    )


def steps(teacher, student_sizes, batch, options):
    """Returns the times of a step, its floor, and a cached step."""
    objectives = RECIPES["tinybert"].stages[0].weighted_objectives
    student = build(student_sizes)
    distiller = kdkit.Distiller(teacher, student, objectives())
    x, y = batch
    cached = kdkit.Distiller(teacher, build(student_sizes), objectives())
    alone = plain(build(student_sizes))
    labelled = (select_inputs(alone, x), y)
    work = {
        "floor": fitting(
            with_teacher_pass(teacher, build(student_sizes)), labelled, options
        ),
        "student step": fitting(alone, labelled, options),
        "distillation step": fitting(distiller, batch, options),
        "cached step": fitting(
            cached, (with_outputs(distiller, x), y), options
        ),
    }
    medians = {
        name: seconds / options.steps
        for name, seconds in median_seconds(work, options.rounds).items()
    }
    for name, median in medians.items():
        print(f"{name:<18} {1000 * median:9.2f} ms", flush=True)
    return {
        "median_ms": {
            name: round(1000 * median, 3) for name, median in medians.items()
        },
        "step_over_floor": round(
            medians["distillation step"] / medians["floor"], 3
        ),
        "cached_over_plain": round(
            medians["cached step"] / medians["student step"], 3
        ),
    }


class Again(keras.utils.PyDataset):
    """One batch, repeated in each epoch."""

    def __init__(self, batch, times):
        super().__init__()
        self._batch = batch
        self._times = times

    def __len__(self):
        return self._times

    def __getitem__(self, index):
        return self._batch


def fitting(model, batch, options):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        optimizer=keras.optimizers.AdamW(5e-5),
        loss=None if isinstance(model, kdkit.Distiller) else loss,
        metrics=[],
        jit_compile=compiles(),
    )
    data = Again(batch, options.steps)
    return lambda: model.fit(data, verbose=0, shuffle=False)


def with_teacher_pass(teacher, student):
    """Returns the student with the teacher's forward pass in its step."""
    heard = teacher(select_inputs(teacher, student.input), training=False)
    heard = keras.ops.stop_gradient(heard)
    # So little that the student's loss is its own, but not nothing.
    model = keras.Model(student.input, student.output + 1e-30 * heard)
    teacher.trainable = False
    return model


def compiles():
    """Whether XLA compiles, if Keras supports it."""
    return keras.config.backend() != "torch"


def with_outputs(distiller, x):
    """Returns the inputs with the teacher's outputs, as from a cache."""
    (entries,) = distiller.teacher_entries
    taps = sorted({entry.tap for entry in entries})
    found = tapped(distiller.teacher, taps)(x, training=False)
    outputs = {
        entry.name: keras.ops.convert_to_numpy(
            keras.ops.stop_gradient(entry.read(found))
        )
        for entry in entries
    }
    return {**x, TEACHER_OUTPUTS: (outputs,)}


def recipe(teacher, student_sizes, rows, options):
    """TinyBERT's two stages on arrays: accuracy and seconds."""
    stages = RECIPES["tinybert"].stages
    if options.epochs:
        stages = [
            dataclasses.replace(stage, epochs=epochs)
            for stage, epochs in zip(stages, options.epochs, strict=True)
        ]
    if not options.bundle:  # few updates of small models
        stages = [
            dataclasses.replace(stage, learning_rate=3e-3, batch_size=16)
            for stage in stages
        ]
    start = time.perf_counter()
    histories = run_on_arrays(
        stages,
        teacher,
        build(student_sizes),
        *rows["train"],
        validation_data=rows["dev"],
        jit_compile=compiles(),
    )
    seconds = time.perf_counter() - start
    accuracy = max(histories["prediction_layer"]["val_accuracy"])
    x, y = rows["dev"]
    logits = plain(teacher).predict(select_inputs(teacher, x), verbose=0)
    of_teacher = float(np.mean(np.argmax(logits, axis=-1) == y))
    print(f"recipe: accuracy {accuracy:.3f} (teacher {of_teacher:.3f})")
    return {
        "name": "tinybert",
        "epochs": [stage.epochs for stage in stages],
        "rows": len(rows["train"][1]),
        "seconds": round(seconds, 1),
        "accuracy": round(float(accuracy), 4),
        "teacher_accuracy": round(of_teacher, 4),
    }


def build(sizes):
    return kdkit.models.student(sizes, num_classes=2)


def plain(model):
    """Returns the model without keras-hub's preprocessing."""
    return keras.Model(model.input, model.output)


def generated(options):
    """Returns rows labelled by whether most tokens are below 32."""
    generator = np.random.default_rng(0)
    rows = {}
    for split, count in zip(SPLITS, (256, 128), strict=True):
        shape = (count, options.sequence_length)
        lengths = generator.integers(5, shape[1] + 1, (count, 1))
        mask = np.arange(shape[1]) < lengths
        tokens = generator.integers(2, TINY["vocabulary_size"], shape) * mask
        tokens[:, 0] = 1
        x = {
            "token_ids": tokens.astype("int32"),
            "segment_ids": np.zeros(shape, "int32"),
            "padding_mask": mask.astype("int32"),
        }
        above = ((tokens >= 32) * 2 - 1) * (tokens > 1)
        rows[split] = x, (above.sum(axis=1) > 0).astype("int32")
    teacher = build({**TINY, **TINY_TEACHER, "dropout": 0.0})
    trainer = plain(teacher)
    trainer.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[],
        jit_compile=compiles(),
    )
    trainer.fit(*rows["train"], batch_size=32, epochs=12, verbose=0)
    return teacher, {**TINY, **TINY_STUDENT}, rows


def device():
    """Returns the backend's name for the device."""
    backend = keras.config.backend()
    native = importlib.import_module(backend)
    if backend == "jax":
        return native.devices()[0].device_kind
    if backend == "torch":
        cuda = native.cuda
        return cuda.get_device_name() if cuda.is_available() else "cpu"
    found = native.config.list_physical_devices("GPU")
    if not found:
        return "cpu"
    details = native.config.experimental.get_device_details(found[0])
    return details.get("device_name", found[0].name)


if __name__ == "__main__":
    sys.exit(main())
