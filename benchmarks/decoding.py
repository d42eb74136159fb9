"""The time of a decoder's file for a token and for a text of 512 tokens.

    python benchmarks/decoding.py
    python benchmarks/decoding.py --teacher gpt2_base_en --sequence-length 256

A teacher and LightPAFF's GPT-2 student, with random weights, on which times do
not depend; batch 1, one thread, a capacity of `--sequence-length` tokens. First
one step of each file from kdkit.export.to_litert, in turns. Then, for the
student, two other ways to compute the next token: a step with keras-hub's
`call_with_cache`, whose file reads and returns the whole cache, and the Keras
model on a whole text, without a cache. LightPAFF's table 4 times the latter, so
it is also measured with the teacher.

The last line is a JSON object. The exit status is 1 if the student's int8 file
has 5 % more bytes than the student has weights, which happens if its token
embeddings are stored twice.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from measuring import compiled_forward, median_seconds
from rich.console import Console
from rich.table import Table

from kdkit import export, models

TEACHER, STUDENT = "gpt2_medium_en", "lightpaff_gpt2_4_layer_en"
VOCABULARY = 50257
PAPER = {"teacher, ms": 1683, "student, ms": 245, "speed_up": 6.87}
LARGEST_SHARE = 1.05  # bytes per weight


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--teacher", default=TEACHER)
    parser.add_argument("--sequence-length", type=int, default=512)
    parser.add_argument("--runs", type=int, default=40, help="timed, per file")
    parser.add_argument("--rounds", type=int, default=3, help="of whole texts")
    options = parser.parse_args()
    # One thread, like the files; before the first operation.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    length = options.sequence_length
    named = {
        arm: models.language_model(
            models.student(name, vocabulary_size=VOCABULARY)
        )
        for arm, name in (("teacher", options.teacher), ("student", STUDENT))
    }
    with tempfile.TemporaryDirectory() as folder:
        files = [
            export.to_litert(
                named[arm],
                pathlib.Path(folder, f"{arm}-{precision}.tflite"),
                precision,
                sequence_length=length,
            ).file
            for arm, precision in (
                ("teacher", "fp32"),
                ("student", "fp32"),
                ("student", "int8"),
            )
        ]
        reports = export.measure_latencies(files, runs=options.runs)
        print_files(reports, length)
        ways = {
            "new keys and values": a_step(files[1]),
            "whole cache": a_step_with_cache(named["student"], length),
        }
        seconds = median_seconds(ways, options.runs)
    texts = {
        f"{arm}, whole text": compiled_forward(model, text(length))
        for arm, model in named.items()
    }
    seconds |= median_seconds(texts, options.rounds)
    for name, value in seconds.items():
        print(f"{name:<22} {1000 * value:9.1f} ms")
    student = named["student"].count_params()
    share = reports[2].size_bytes / student
    by_file = {pathlib.Path(report.file).stem: report for report in reports}
    print(
        json.dumps(
            {
                "benchmark": "decoding",
                "teacher": options.teacher,
                "student": STUDENT,
                "sequence_length": length,
                "step_ms": {
                    name: report.median_ms for name, report in by_file.items()
                },
                "megabytes": {
                    name: report.size_bytes / 1e6
                    for name, report in by_file.items()
                },
                "speed_up_of_step": {
                    name: reports[0].median_ms / report.median_ms
                    for name, report in by_file.items()
                },
                "other_ways_ms": {
                    name: 1000 * value for name, value in seconds.items()
                },
                "whole_cache_over_step": seconds["whole cache"]
                / seconds["new keys and values"],
                "whole_text_over_step": seconds["student, whole text"]
                / seconds["new keys and values"],
                "speed_up_of_whole_text": seconds["teacher, whole text"]
                / seconds["student, whole text"],
                "paper": PAPER,
                "int8_bytes_per_weight": share,
                "goal": LARGEST_SHARE,
            }
        )
    )
    return int(share > LARGEST_SHARE)


def text(length):
    """Returns a text of random tokens as inputs of the Keras models."""
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (1, length))
    return {
        "token_ids": tf.constant(tokens, "int32"),
        "padding_mask": tf.ones((1, length), "int32"),
    }


def a_step(file):
    """Returns a function that runs a file on one token."""
    decoder = export.LiteRTDecoder(file)

    def run():
        if decoder.position == decoder.sequence_length:
            decoder.reset()
        decoder.step(decoder.position)

    return run


def a_step_with_cache(model, length):
    """Returns a function for one token that copies the whole cache."""
    backbone = model.backbone
    heads = backbone.num_heads
    shape = (1, backbone.num_layers, 2, length, heads)
    shape += (backbone.hidden_dim // heads,)

    def step(token_ids, index, cache):
        logits, _, cache = model.call_with_cache(token_ids, cache, index)
        return {"logits": logits[:, 0], "cache": cache}

    archive = keras.export.ExportArchive()
    archive.track(backbone)
    archive.add_endpoint(
        "step",
        step,
        input_signature=[
            tf.TensorSpec((1, 1), "int32", "token_ids"),
            tf.TensorSpec((), "int32", "index"),
            tf.TensorSpec(shape, "float32", "cache"),
        ],
    )
    with tempfile.TemporaryDirectory() as folder:
        archive.write_out(folder, verbose=False)
        content = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=["step"]
        ).convert()
    interpreter = Interpreter(model_content=content, num_threads=1)
    step_of_file = interpreter.get_signature_runner("step")
    state = {"index": 0, "cache": np.zeros(shape, "float32")}

    def run():
        state["cache"] = step_of_file(
            token_ids=np.full((1, 1), state["index"], "int32"),
            index=np.int32(state["index"]),
            cache=state["cache"],
        )["cache"]
        state["index"] = (state["index"] + 1) % length

    return run


def print_files(reports, length):
    table = Table(title=f"One thread, capacity of {length} tokens")
    table.add_column("file", no_wrap=True)
    columns = ("ms a token", "faster", f"{length} tokens, s", "MB", "M params")
    for column in columns:
        table.add_column(column, justify="right")
    for report in reports:
        table.add_row(
            pathlib.Path(report.file).name,
            f"{report.median_ms:.2f}",
            f"{reports[0].median_ms / report.median_ms:.1f}×",
            f"{length * report.median_ms / 1000:.1f}",
            f"{report.size_bytes / 1e6:.1f}",
            f"{report.parameters / 1e6:.1f}",
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    sys.exit(main())
