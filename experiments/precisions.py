"""Compares LiteRT files in kdkit's precisions with choices that kdkit rejected.

Exports MODEL, a run or preset of a classifier, with each choice, and prints for
all of dev the differences of the logits from the fp32 file's, the share of
equal classes, and the metrics. A row with `+` changes one thing in the
precision above it. docs/measured/quantization.md contains the results.

example:
  python experiments/precisions.py runs/pkd --data-dir glue
"""

import collections
import dataclasses
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

import numpy as np
from ai_edge_quantizer.default_policy import DEFAULT_JSON_POLICY

from kdkit import export
from kdkit.backends import tf
from kdkit.cli.groups import ModelChoiceOptions
from kdkit.cli.groups import TaskOptions
from kdkit.cli.main import run_script
from kdkit.cli.models import calibration_data
from kdkit.cli.models import locate
from kdkit.cli.models import open_model
from kdkit.cli.parser import Model
from kdkit.cli.parser import option
from kdkit.errors import RunError
from kdkit.export import inference
from kdkit.export import quantization
from kdkit.export.exportable import exportable
from kdkit.export.litert_files import packed_model
from kdkit.export.litert_graphs import Graphs
from kdkit.export.litert_graphs import tensor_name
from kdkit.training.task_data import predict_logits

MORE = {  # operators that stay in floats in static_int8
    "attention products": ("BATCH_MATMUL",),
    "softmax": ("SOFTMAX",),
    "GELU": ("GELU",),
    "additions": ("ADD",),
}
EVERY = json.loads(DEFAULT_JSON_POLICY)["ops_per_config"]["static_wi8_ai8"]
CONVERTER = {  # names of sets of operators
    "int16x8": "EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8",
    "static_int8": "TFLITE_BUILTINS_INT8",
}
OPEN = "import sys, kdkit; kdkit.export.LiteRTModel(sys.argv[1])"
MASK = -100.0  # for the converter, whose constants are in Keras


@dataclasses.dataclass
class Options(ModelChoiceOptions, TaskOptions):
    """precisions"""

    model: Model | None = option(
        "a run or preset directory", positional=True, required=True
    )
    latency: bool = option("add the median ms on one thread", default=False)


def run(options) -> None:
    opened = open_model(locate(options.model, options.arm), options)
    dev, exact = opened.encode("dev"), None
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.tflite")
        for name, write in choices(Files(opened, path)):
            try:
                write()
                file = export.LiteRTModel(path)
                found = predict_logits(export.file_logits(file), dev)
            except Exception as error:  # of any tool
                print_row(name, " ".join(str(error).split())[:60])
                continue
            metrics = opened.task.compute_metrics(dev.targets, found)
            if exact is None:
                exact = found
                titles = ["choice", "MB", "mean", "largest", "same class"]
                titles += [*metrics, *["ms"] * options.latency]
                print_row(*titles)
                print_row(*["---"] * len(titles))
            away = np.abs(found - exact)
            same = (found.argmax(-1) == exact.argmax(-1)).mean()
            size = path.stat().st_size / 1e6
            cells = [f"{size:.2f}", f"{away.mean():.4f}", f"{away.max():.3f}"]
            cells += [f"{same:.1%}", *map("{:.4f}".format, metrics.values())]
            if options.latency:
                cells.append(f"{export.measure_latency(path).median_ms:.2f}")
            print_row(name, *cells)


def print_row(*cells):
    print(f"| {' | '.join(cells)} |", flush=True)


def choices(files):
    """Yields the name of each choice, and a callable that writes its file."""
    choice, static = functools.partial, files.static
    for precision in ("fp32", "fp16", "int8"):
        yield precision, choice(files.shipped, precision)
    yield "+ by ai-edge-quantizer", choice(files.dynamic, num_bits=8)
    for precision in CONVERTER:
        yield precision, choice(files.shipped, precision)
        converted = choice(files.converted, precision)
        yield "+ by TFLiteConverter", converted
        yield f"+ by TFLiteConverter, mask {MASK:g}", choice(converted, MASK)
    for name, operators in MORE.items():
        yield f"+ {name} in 8 bits", choice(static, operators)
    yield "+ all four in 8 bits", choice(static, sum(MORE.values(), ()))
    every = "+ every operator in 8 bits"
    yield every, choice(static, EVERY)
    yield f"{every}, mask as it is", choice(static, EVERY, is_clamped=False)
    yield "+ mask as it is", choice(static, (), is_clamped=False)
    for rank in (99.9, 99.99):
        yield f"+ ranges to percentile {rank}", choice(static, (), rank)
    yield "int4", choice(files.shipped, "int4")
    for block in (64, 128):
        yield f"+ a scale for {block} inputs", choice(files.dynamic, block)
    yield "+ a scale for all inputs", choice(files.dynamic, None)
    yield "+ embeddings rounded to 4 bits", files.with_small_tables


class Files:
    """Writes the file of an opened encoder to a path."""

    def __init__(self, opened, path):
        self.opened, self.path = opened, path
        self.rows = calibration_data(quantization.CALIBRATED, opened)
        self.source = exportable(
            opened.model, True, opened.sequence_length, None, self.rows
        )
        self.kernels = quantization.kernels(opened.model)
        self.shipped("fp32")
        graphs = Graphs(path.read_bytes())
        _, lowest = quantization.calibrated(graphs, self.source.batches)
        least = (lowest or 0) - quantization.MASK_DISTANCE
        clamped = quantization.clamp_masks(graphs.content, least)
        self.content = {False: graphs.content, True: clamped}
        self.activations = functools.cache(self._activations)

    def shipped(self, precision):
        """As `kdkit export` writes it."""
        export.to_litert(
            self.opened.model,
            self.path,
            precision,
            self.opened.sequence_length,
            calibration_data=self.rows,
            overwrite=True,
        )

    def converted(self, precision, mask=inference.MASKED):
        """With fixed ranges, by TensorFlow's converter."""
        operators = getattr(tf.lite.OpsSet, CONVERTER[precision])
        changed = mock.patch.object(inference, "MASKED", mask)
        with changed, inference.fast_layers(self.opened.model):
            self.opened.model.export(
                self.path,
                format="litert",
                verbose=False,
                input_signature=self.source.signature(),
                optimizations=[tf.lite.Optimize.DEFAULT],
                representative_dataset=lambda: iter(self.source.batches),
                target_spec={"supported_ops": [operators]},
            )
        opening = [sys.executable, "-c", OPEN, str(self.path)]
        if subprocess.run(opening, capture_output=True, check=False).returncode:
            raise RunError("LiteRT cannot open the file.")

    def dynamic(self, block=quantization.BLOCK, num_bits=4, graphs=None):
        """With ranges at run time: as int4, with one change."""
        graphs = graphs or Graphs(self.content[False])
        places = list(quantization.configurations(graphs, "int4", block))
        if num_bits == 8:
            tables = {place.result for place in graphs.tables()}
            places = [
                (kind, name, usual if name in tables else add_dynamic)
                for kind, name, usual in places
            ]
        self._write(graphs, places, {})

    def with_small_tables(self):
        """As int4, after embeddings were rounded to 4 bits row by row."""
        graphs = Graphs(self.content[False])
        for graph, _, operator, kind in graphs.operators():
            table = graphs.constant(graph, operator.inputs[0])
            if kind == "GATHER" and table is not None:
                scale = np.abs(table).max(-1, keepdims=True) / 7 + 1e-9
                rounded = (np.rint(table / scale) * scale).astype("float32")
                buffer = graph.tensors[operator.inputs[0]].buffer
                graphs.model.buffers[buffer].data = rounded.view(
                    "uint8"
                ).ravel()
        self.dynamic(graphs=Graphs(packed_model(graphs.model)))

    def static(self, operators, rank=100, is_clamped=True):
        """As static_int8, with more operators, smaller ranges or old masks."""
        graphs = Graphs(self.content[is_clamped])
        places = list(quantization.configurations(graphs, "static_int8"))
        usual = {name for _, name, _ in places}
        for graph, _, operator, kind in graphs.operators():
            name = tensor_name(graph, operator.outputs[0])
            if kind in operators and name not in usual:
                places.append((kind, name, add_static))
        self._write(graphs, places, self.activations(rank, is_clamped))

    def _activations(self, rank, is_clamped):
        """Ranges of all activations; of products' alone for percentiles."""
        graphs = Graphs(self.content[is_clamped])
        (graph,) = graphs.model.subgraphs
        numbers = {n for one in graph.operators for n in one.outputs}
        if rank < 100:
            products = list(graphs.products())
            numbers = {n for one in products for n in (one.source, one.output)}
        found = collections.defaultdict(list)
        batches = self.source.batches
        for runner in quantization.calibration_runs(graphs.content, batches):
            for number in numbers:
                value = runner.get_tensor(number)
                if value.dtype == np.float32:
                    ends = [value.min(), value.max()]
                    some = ends if rank == 100 else value.ravel()[::31]
                    found[tensor_name(graph, number), value.ndim].append(some)
        return {
            name: (*np.percentile(np.hstack(some), (100 - rank, rank)), ndim)
            for (name, ndim), some in found.items()
        }

    def _write(self, graphs, places, ranges):
        tables = {place.result: place.table for place in graphs.tables()}
        arguments = graphs.content, places, {**ranges, **tables}, self.kernels
        self.path.write_bytes(quantization.configured(*arguments))


def add_static(manager, regex, operation):
    manager.add_static_config(regex, operation, 8, 8)


def add_dynamic(manager, regex, operation):
    manager.add_dynamic_config(regex, operation, 8)


if __name__ == "__main__":
    sys.exit(run_script(sys.modules[__name__]))
