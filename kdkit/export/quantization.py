"""Integer precisions of LiteRT files: static int8, int8 x int16, and int4.

The converter's own `int8` quantizes weights only. The precisions here are made
from the converter's fp32 file by ai-edge-quantizer:

- `static_int8`: weights and activations of every dense product (LiteRT's
  `FULLY_CONNECTED`) and convolution in 8 bits.
- `int16x8`: the same places, with activations in 16 bits.
- `int4`: weights of every dense product in 4 bits, activations quantized at
  run time. Convolutions and output matrices of tied embeddings have 8 bits;
  a decoder's lookup reads the rows of that matrix.

Tables that are looked up have 8 bits in all three, also the positions of a
decoder. Those of an encoder, layer normalization, softmax, GELU, attention
products and additions stay in floats: docs/quantization.md contains the
measured reasons.
"""

import contextlib
import hashlib
import io
import math
import pathlib
import re
import warnings
from collections.abc import Iterable, Mapping

import numpy as np

from kdkit.errors import UsageError, require_extra, unknown
from kdkit.export.exportable import given_batches
from kdkit.export.inputs import ENCODER, TENSORS
from kdkit.export.litert_files import LiteRTModel, packed_model
from kdkit.export.litert_graphs import Graphs, tensor_name
from kdkit.late import LateModule
from kdkit.quantization.precisions import MIN_ROWS

quantizer = LateModule("ai_edge_quantizer.quantizer", "ai-edge-quantizer")
recipes = LateModule("ai_edge_quantizer.recipe_manager", "ai-edge-quantizer")

CALIBRATED = {"static_int8": 8, "int16x8": 16}  # bits of activations
WEIGHTS_ONLY = "int4"
PRECISIONS = (*CALIBRATED, WEIGHTS_ONLY)
CALIBRATION_ROWS = 256  # from a run's training examples
BATCH_SIZE = 16  # rows at once; all activations are in memory
BLOCK = 32  # weights with one scale in int4


def require_precision(
    kind: str, precision: str, is_recurrent: bool = False
) -> None:
    """Checks that a file can have a precision, and the packages for it."""
    if precision not in PRECISIONS:
        return
    require_extra("quantization", "ai_edge_quantizer")
    reads_steps = kind not in (ENCODER, TENSORS)
    if is_recurrent or (reads_steps and precision in CALIBRATED):
        raise UsageError(
            f"No {precision} of a {'recurrent ' * is_recurrent}{kind}: its "
            "weights or its cache would stay in floats. Choose int8."
        )


def require_calibration(precision: str, batches) -> None:
    """Checks the number of calibration rows for a precision."""
    if precision not in CALIBRATED:
        return
    inputs = [b[0] if isinstance(b, tuple) else b for b in batches or ()]
    rows = sum(len(next(iter(batch.values()))) for batch in inputs)
    if rows < MIN_ROWS:
        raise UsageError(
            f"{precision} needs calibration_data of at least {MIN_ROWS} "
            f"training examples. Received: {rows}."
        )


def calibration_batches(source, precision: str, data) -> list | None:
    """Returns checked calibration data, `None` if a precision needs none."""
    require_precision(source.kind, precision, source.is_recurrent)
    if precision not in CALIBRATED:
        return None
    if data is not None:
        data = given_batches(data, source)
    require_calibration(precision, data)
    return data


def kernels(model) -> dict:
    """Returns kernels by the paths of their layers."""
    return {
        path: weight.value
        for weight in model.weights
        for path, _, name in [weight.path.rpartition("/")]
        if name == "kernel"
    }


def quantized(
    path: pathlib.Path,
    precision: str,
    calibration: Iterable[dict] | None,
    activation_ranges: Mapping | None,
    kernels: Mapping,
) -> bytes:
    """Returns the content of a quantized copy of an fp32 file."""
    graphs = Graphs(path.read_bytes())
    bits = CALIBRATED.get(precision)
    ranges = {}
    if bits:
        ranges = calibrated(path, graphs, calibration)
        ranges.update(_given(graphs, activation_ranges or {}, kernels))
    tables = list(graphs.tables())
    manager = recipes.RecipeManager()
    for product in graphs.products():
        name, operation = _only(product.result), product.operation
        if bits:
            manager.add_static_config(name, operation, bits, 8)
            continue
        weight = product.weight
        is_tied = any(np.array_equal(weight, one.weight) for one in tables)
        is_small = operation == "FULLY_CONNECTED" and not is_tied
        in_blocks = is_small and weight.shape[1] % BLOCK == 0
        granularity = f"BLOCKWISE_{BLOCK}" if in_blocks else "CHANNELWISE"
        num_bits = 4 if is_small else 8
        manager.add_dynamic_config(name, operation, num_bits, granularity)
    for table in tables:
        ranges[table.result] = table.limits
        manager.add_static_config(_only(table.result), table.operation, 8, 8)
    recipe = manager.get_quantization_recipe()
    if not recipe:
        raise UsageError(f"The model has no weights for {precision}.")
    statistics = {
        name: {
            "min": np.full((1,) * rank, low, "float32"),
            "max": np.full((1,) * rank, high, "float32"),
        }
        for name, (low, high, rank) in ranges.items()
    }
    with _quietly():
        result = quantizer.Quantizer(
            bytearray(graphs.content), recipe
        ).quantize(
            statistics or None,
            enable_progress_bar=False,
            enable_progress_report=False,
        )
    return packed_model(Graphs(bytes(result.quantized_model)).model)


def _only(name):
    """Returns the expression for one operator, by its output's name."""
    return f"^{re.escape(name)};$"


def calibrated(path: pathlib.Path, graphs: Graphs, batches) -> dict:
    """Returns the ranges of a file's products by name."""
    main = graphs.model.subgraphs[0]
    numbers = {
        number
        for product in graphs.products()
        for number in (product.source, product.output)
        if product.graph == 0
    }
    found = {number: (math.inf, -math.inf) for number in numbers}
    ranks = dict.fromkeys(found, 1)
    with _quietly():
        file = LiteRTModel(
            path, delegate="none", experimental_preserve_all_tensors=True
        )
    for batch in _small(batches):
        file(batch)
        for number, (low, high) in found.items():
            value = file.interpreter.get_tensor(number)
            ranks[number] = value.ndim
            found[number] = (
                min(low, float(value.min())),
                max(high, float(value.max())),
            )
    return {
        tensor_name(main, number): (low, high, ranks[number])
        for number, (low, high) in found.items()
        if low <= high
    }


def _small(batches):
    """Yields batches of at most `BATCH_SIZE` rows."""
    for batch in batches:
        rows = len(next(iter(batch.values())))
        for start in range(0, rows, BATCH_SIZE):
            chosen = slice(start, start + BATCH_SIZE)
            yield {name: value[chosen] for name, value in batch.items()}


def _given(graphs, ranges, kernels):
    """Returns the given ranges by the names of tensors."""
    by_kernel = {}
    for path, found in ranges.items():
        if path not in kernels:
            raise unknown("layer in `activation_ranges`", path, kernels)
        kernel = np.asarray(kernels[path], "float32")
        rows = {len(kernel), math.prod(kernel.shape[:-1])}
        for count in rows:
            matrix = np.ascontiguousarray(kernel.reshape(count, -1).T)
            by_kernel[_digest(matrix)] = found
    result = {}
    for product in graphs.products():
        graph = graphs.model.subgraphs[product.graph]
        found = by_kernel.get(_digest(product.weight))
        for number, limits in zip(
            (product.source, product.output), found or (), strict=False
        ):
            if limits is not None:
                tensor = graph.tensors[number]
                result[tensor_name(graph, number)] = (
                    *limits,
                    len(tensor.shape),
                )
    return result


def _digest(matrix):
    return matrix.shape, hashlib.sha256(matrix.tobytes()).hexdigest()


@contextlib.contextmanager
def _quietly():
    """Hides progress bars, log messages, and a warning about memory."""
    with (
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", ".*preserve_all_tensors.*")
        yield
