"""LiteRT compared with ONNX Runtime and a SavedModel, teacher and student.

    python benchmarks/runtimes.py
    python benchmarks/runtimes.py --student-only
    python benchmarks/runtimes.py --teacher runs/teacher --student runs/tinybert

BERT-base and TinyBERT's 4×312, or the two given models: each as LiteRT and ONNX
files in fp32 and int8, and as a SavedModel. One row of 128 tokens, one thread,
in turns. If the logits of an fp32 file differ from the Keras model's by more
than 1e-4, the benchmark fails. ONNX needs the extra `onnx`; without it, ONNX is
not measured, and the output states that. The same holds for a model whose ONNX
files cannot be written in a separate process: the converter needs many times
the model's memory.

The last line is a JSON object. The exit status is 1 if the student's fp32
LiteRT file is slower than its SavedModel, if its int8 LiteRT file is not 1.2
times as fast as its int8 ONNX file, or if logits differ.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from measuring import median_seconds, random_batch

from kdkit import export, models

TEACHER = "bert_base_en_uncased"
STUDENT = "tinybert_4_layer_en_uncased"
LENGTH = 128
PRECISIONS = ("fp32", "int8")
TOLERANCE = 1e-4
# Times of the student over those of its LiteRT file in the same precision.
GOALS = {"saved_model_over_litert": 1.0, "onnx_int8_over_litert_int8": 1.2}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--teacher", metavar="MODEL")
    parser.add_argument("--student", metavar="MODEL")
    parser.add_argument("--num-classes", type=int, default=2)
    parser.add_argument("--runs", type=int, default=20, help="timed, per file")
    parser.add_argument(
        "--write-onnx",
        nargs=2,
        metavar=("KERAS_FILE", "FOLDER"),
        help="only write the ONNX files of a saved model",
    )
    parser.add_argument("--student-only", action="store_true")
    options = parser.parse_args()
    if options.write_onnx:
        write_onnx(*options.write_onnx)
        return 0
    if bool(options.teacher) != bool(options.student):
        parser.error("--teacher and --student go together")
    # Before the first operation.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    missing = [
        name
        for name in ("onnxruntime", "tf2onnx")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        print(
            f"ONNX is not run: {' and '.join(missing)} missing. Install with: "
            "pip install '.[onnx]'"
        )
    results, differences = {}, {}
    sizes = {"teacher": TEACHER, "student": STUDENT}
    if options.student_only:
        del sizes["teacher"]
    for arm, size in sizes.items():
        place = getattr(options, arm)
        if place:
            model = models.load_classifier(place, options.num_classes).model
        else:
            model = models.student(size, num_classes=2)
        with tempfile.TemporaryDirectory() as folder:
            runs = runtimes(model, pathlib.Path(folder), not missing)
            results[arm], differences[arm] = measure(model, runs, options.runs)
        for name, seconds in results[arm].items():
            print(
                f"{arm:<8} {name:<13} {1000 * seconds:8.1f} ms, logits within "
                f"{differences[arm][name]:.0e}",
                flush=True,
            )
    student = results["student"]
    ratios = {
        "saved_model_over_litert": student["SavedModel"]
        / student["LiteRT fp32"]
    }
    if "ONNX int8" in student:
        ratios["onnx_int8_over_litert_int8"] = (
            student["ONNX int8"] / student["LiteRT int8"]
        )
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.2f}, the goal is {GOALS[name]}")
    missed = [name for name, ratio in ratios.items() if ratio < GOALS[name]]
    wrong = [
        f"{arm}, {name}"
        for arm, found in differences.items()
        for name, difference in found.items()
        if "int8" not in name and difference > TOLERANCE
    ]
    print(
        json.dumps(
            {
                "benchmark": "runtimes",
                "teacher": options.teacher or TEACHER,
                "student": options.student or STUDENT,
                "without_onnx": [
                    arm
                    for arm, found in results.items()
                    if "ONNX fp32" not in found
                ],
                "median_ms": {
                    arm: {
                        name: round(1000 * seconds, 2)
                        for name, seconds in found.items()
                    }
                    for arm, found in results.items()
                },
                "largest_differences": differences,
                **{name: round(ratio, 2) for name, ratio in ratios.items()},
                "goals": GOALS,
                "missed": missed,
                "other_logits": wrong,
            }
        )
    )
    return 1 if wrong or missed else 0


def runtimes(model, folder, with_onnx):
    """Functions from a batch to logits, one a runtime."""
    found = {}
    if with_onnx and write_onnx_apart(model, folder):
        for precision in PRECISIONS:
            file = export.ONNXModel(folder / f"{precision}.onnx")
            found[f"ONNX {precision}"] = file
    for precision in PRECISIONS:
        path = folder / f"{precision}.tflite"
        export.to_litert(
            model, path, precision=precision, sequence_length=LENGTH
        )
        found[f"LiteRT {precision}"] = export.LiteRTModel(path)
    export.to_saved_model(model, folder / "saved_model")
    found["SavedModel"] = export.SavedModel(folder / "saved_model")
    return found


def write_onnx(saved, folder):
    """Writes a saved model as ONNX files of one length."""
    model = keras.saving.load_model(saved, compile=False)
    for precision in PRECISIONS:
        export.to_onnx(
            model,
            pathlib.Path(folder, f"{precision}.onnx"),
            precision=precision,
            sequence_length=LENGTH,
        )


def write_onnx_apart(model, folder):
    """Writes ONNX files in another process; returns whether that succeeded."""
    saved = folder / "model.keras"
    model.save(saved)
    status = subprocess.run(
        [sys.executable, __file__, "--write-onnx", str(saved), str(folder)]
    ).returncode
    if status:
        print(
            f"No ONNX file of {model.count_params():,} parameters: the process "
            f"that writes it ended with {status}"
            + (", killed for memory." if status == -signal.SIGKILL else ".")
        )
    return not status


def measure(model, runs, rounds):
    """Returns medians, and the differences from the Keras model's logits."""
    batch, _ = random_batch(1, LENGTH, model.backbone.vocabulary_size)
    expected = np.asarray(model(batch, training=False))
    batch = {name: values.numpy() for name, values in batch.items()}
    differences = {
        name: float(np.abs(run(batch) - expected).max())
        for name, run in runs.items()
    }
    work = {name: lambda run=run: run(batch) for name, run in runs.items()}
    return median_seconds(work, rounds), differences


if __name__ == "__main__":
    sys.exit(main())
