"""How much faster and smaller an exported file is than another.

    python benchmarks/files.py
    python benchmarks/files.py tinybert runtimes
    python benchmarks/files.py --teacher runs/teacher --student runs/tinybert

A case compares pairs of files. Models have random weights, on which latency
does not depend, two classes and 128 tokens; decoders have GPT-2's vocabulary,
a capacity of 512 tokens, and are timed for one token. --teacher and --student
replace BERT-base and TinyBERT's 4×312. All files of a case are timed in turns,
on one thread, batch 1.

- `tinybert`: TinyBERT-4 in LiteRT against BERT-base in fp32.
- `runtimes`: a SavedModel against LiteRT.
- `onnx`: ONNX Runtime against LiteRT, both with all matrices in int8. Needs the
  extra `onnx`.
- `depth`: BERT with 3 and 6 blocks against 12: nine tenths of the speed-ups in
  Patient KD's table 4.
- `decoder`: LightPAFF's GPT-2 student against GPT-2 medium. Its int8 file has a
  quarter of the bytes only if the tied embeddings are stored once.

The last line is a JSON object. The exit status is 1 if a ratio is below its
goal.
"""

import operator
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import adapter
import keras
import tensorflow as tf
import timing

from kdkit import export, models

TEACHER, STUDENT = "bert_base_en_uncased", "tinybert_4_layer_en_uncased"
GPT2, GPT2_STUDENT = "gpt2_medium_en", "lightpaff_gpt2_4_layer_en"
VOCABULARY = 50257  # GPT-2's
WRITERS = {
    ".tflite": export.to_litert,
    ".onnx": export.to_onnx,
    "": export.to_saved_model,
}
TIME, SIZE = "median_ms", "size_bytes"
# Two files, by model, precision and suffix; what is compared; the lowest ratio
# of the first to the second.
BASE = (TEACHER, "fp32", ".tflite")
SMALL = (STUDENT, "fp32", ".tflite")
SMALL_INT8 = (STUDENT, "int8", ".tflite")
DECODER = (GPT2_STUDENT, "fp32", ".tflite")
DECODER_INT8 = (GPT2_STUDENT, "int8", ".tflite")
CASES = {
    "tinybert": [
        (BASE, SMALL, TIME, 12),
        (BASE, SMALL_INT8, TIME, 40),
        (BASE, SMALL_INT8, SIZE, 25),
    ],
    "runtimes": [((STUDENT, "fp32", ""), SMALL, TIME, 1.0)],
    "onnx": [((STUDENT, "int8", ".onnx"), SMALL_INT8, TIME, 1.2)],
    "depth": [
        (BASE, (f"bert_{n}_layer_en_uncased", "fp32", ".tflite"), TIME, goal)
        for n, goal in ((3, 0.9 * 3.73), (6, 0.9 * 1.94))
    ],
    "decoder": [
        ((GPT2, "fp32", ".tflite"), DECODER, TIME, 5),
        ((GPT2, "fp32", ".tflite"), DECODER_INT8, TIME, 12),
        (DECODER, DECODER_INT8, SIZE, 4 / 1.05),
    ],
}


def main():
    parser = timing.parser(__doc__, CASES, "--teacher", "--student")
    options = parser.parse_args()
    # Before the first operation, for the SavedModel.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    given = {TEACHER: options.teacher, STUDENT: options.student}
    results = []
    for name in options.cases or CASES:
        with tempfile.TemporaryDirectory() as folder:
            results += measure(name, given, folder)
    return timing.finish("files", results, models=given)


def measure(name, given, folder):
    """Writes the files of a case, and compares them."""
    files = dict.fromkeys(file for pair in CASES[name] for file in pair[:2])
    for file in files:
        model, precision, suffix = file
        files[file] = pathlib.Path(folder, f"{model}-{precision}{suffix}")
        write(model, given, files[file], precision)
    reports = adapter.measure_latencies(list(files.values()))
    reports = dict(zip(files, reports, strict=True))
    results = []
    for *pair, quantity, goal in CASES[name]:
        values = {
            " ".join(file): round(getattr(reports[file], quantity), 2)
            for file in pair
        }
        ratio = operator.truediv(*values.values())
        found = {quantity: values}
        results.append(timing.result(name, ratio, goal, ratio >= goal, **found))
    return results


def write(name, given, path, precision):
    """Writes a model, built here or given, as a file."""
    if given.get(name):
        model = models.load_classifier(given[name], 2).model
    elif "gpt2" in name:
        backbone = models.student(name, vocabulary_size=VOCABULARY)
        model = adapter.language_model(backbone)
    else:
        model = models.student(name, num_classes=2)
    more = {}
    if path.suffix:
        length = 512 if "gpt2" in name else 128
        more = {"precision": precision, "sequence_length": length}
    WRITERS[path.suffix](model, path, **more)
    keras.backend.clear_session()


if __name__ == "__main__":
    sys.exit(main())
