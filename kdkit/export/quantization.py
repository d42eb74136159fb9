"""Integer precisions of LiteRT files: static int8, int8 x int16, and int4.

The converter's own `int8` quantizes weights only. The precisions here are made
from the converter's fp32 file by ai-edge-quantizer:

- `static_int8`: weights and activations of every dense product (LiteRT's
  `FULLY_CONNECTED`) and convolution in 8 bits.
- `int16x8`: the same places, with activations in 16 bits.
- `int4`: weights of every dense product in 4 bits, activations quantized at
  run time. Convolutions and output matrices of tied embeddings have 8 bits;
  a decoder's lookup reads the rows of that matrix.

Embedding tables have 8 bits in all three. Layer normalization, softmax, GELU,
attention products and additions stay in floats: docs/quantization.md contains
the measured reasons.
"""

import contextlib
import copy
import dataclasses
import hashlib
import io
import math
import re
import warnings
from collections.abc import Iterable
from collections.abc import Mapping

import numpy as np

from kdkit.backends import LateModule
from kdkit.errors import UsageError
from kdkit.errors import require_extra
from kdkit.export.exportable import given_batches
from kdkit.export.inputs import ENCODER
from kdkit.export.inputs import TENSORS
from kdkit.export.inputs import batch_shape
from kdkit.export.litert_files import input_name
from kdkit.export.litert_files import interpreter
from kdkit.export.litert_files import packed_model
from kdkit.quantization.schemes import MIN_ROWS

schema = LateModule("ai_edge_litert.schema_py_generated", "ai-edge-litert")
quantizer = LateModule("ai_edge_quantizer.quantizer", "ai-edge-quantizer")
recipes = LateModule("ai_edge_quantizer.recipe_manager", "ai-edge-quantizer")
PACKAGES = {"ai-edge-quantizer": (0, 10)}

CALIBRATED = {"static_int8": 8, "int16x8": 16}  # bits of activations
WEIGHTS_ONLY = "int4"
PRECISIONS = (*CALIBRATED, WEIGHTS_ONLY)
CALIBRATION_ROWS = 256  # from a run's training examples
BATCH_SIZE = 16  # rows at once; all activations are in memory
BLOCK = 32  # weights with one scale in int4
# Below the lowest score by this much, softmax is exactly 0 in float32.
MASK_DISTANCE = 104.0
MASK_LIMIT = -1e4  # constants up to it are masks, not weights
ABSORBING = -1e30  # the sum of a score and a constant below is the constant
_TABLES = ("GATHER", "BROADCAST_TO", "SLICE", "STRIDED_SLICE")
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")


def require_precision(
    kind: str, precision: str, is_recurrent: bool = False
) -> None:
    """Checks that a precision exists for a kind of model, and its packages.

    Args:
        kind: string, as in `Exportable`.
        precision: string. Those that are not in `PRECISIONS` always exist.
        is_recurrent: bool. Whether the model has recurrent layers. Defaults
            to `False`.

    Raises:
        UsageError: if it does not exist or ai-edge-quantizer is missing.
    """
    if precision not in PRECISIONS:
        return
    require_extra("quantization", f"{precision} files", PACKAGES)
    if is_recurrent:
        raise UsageError(
            f"Models with recurrent layers have no {precision} files, because "
            "their weights are in a loop. Expected fp32, fp16 or int8. Export "
            "with precision='int8'."
        )
    if precision in CALIBRATED and kind not in (ENCODER, TENSORS):
        raise UsageError(
            f"Files that read one token at a time have no {precision}: their "
            "cache has no fixed range. Expected fp32, fp16, int8 or int4. "
            "Export with precision='int4'."
        )


def require_calibration(precision: str, batches) -> None:
    """Checks the number of calibration rows for a precision.

    Args:
        precision: string.
        batches: list of dicts of arrays, or of tuples that start with one, or
            `None`.

    Raises:
        UsageError: if the precision needs rows and has fewer than 16.
    """
    if precision not in CALIBRATED:
        return
    if batches is None:
        raise UsageError(
            f"{precision} files need calibration data, which give the ranges "
            "of activations. Expected batches of training examples. Received: "
            "calibration_data=None. Pass calibration_data, for kdkit export "
            "--data-dir; or export in int8 or int4, which need none."
        )
    inputs = [b[0] if isinstance(b, tuple) else b for b in batches]
    rows = sum(len(next(iter(batch.values()))) for batch in inputs)
    if rows < MIN_ROWS:
        raise UsageError(
            f"{precision} files need at least {MIN_ROWS} calibration rows. "
            f"Received: {rows}. Pass more training examples, for example "
            f"{CALIBRATION_ROWS}."
        )


def calibration_batches(source, precision: str, data) -> list | None:
    """Returns checked calibration data, `None` if a precision needs none.

    Args:
        source: `Exportable`.
        precision: string.
        data: as `calibration_data` in `kdkit.export.to_litert`.

    Raises:
        UsageError: if the data are missing, fewer than 16 rows, or wrong.
    """
    require_precision(source.kind, precision, source.is_recurrent)
    if precision not in CALIBRATED:
        return None
    if data is not None:
        data = given_batches(data, source)
    require_calibration(precision, data)
    return data


def kernels(model) -> dict:
    """Returns kernels and embedding tables by the paths of their layers."""
    return {
        path: weight.value
        for weight in model.weights
        for path, _, name in [weight.path.rpartition("/")]
        if name in ("kernel", "embeddings")
    }


def quantized(
    content: bytes,
    precision: str,
    calibration: Iterable[dict] | None = None,
    activation_ranges: Mapping | None = None,
    kernels: Mapping | None = None,
) -> bytes:
    """Returns a quantized copy of an fp32 file.

    Args:
        content: bytes of a `.tflite` file as the converter writes it.
        precision: string, one of `PRECISIONS`.
        calibration: list of dicts of arrays with the file's inputs, for
            `static_int8` and `int16x8`. The range of an activation is its
            minimum and maximum over these batches. Defaults to `None`.
        activation_ranges: dict from the path of a layer to `(inputs, outputs)`,
            each a tuple `(low, high)` or `None`. They replace the calibrated
            ranges. Defaults to `None`.
        kernels: dict from a layer's path to its kernel or embedding table, an
            array; needed with `activation_ranges`. A product in the file
            belongs to the layer with the same kernel. Position embeddings have
            the range of the table with the same rows; otherwise of those in
            the file. Defaults to `None`.

    Raises:
        UsageError: if `activation_ranges` contains an unknown layer.
    """
    graphs = _Graphs(content)
    ranges = {}
    if precision in CALIBRATED:
        with _quietly():
            ranges, lowest = _calibrated(graphs, calibration)
        ranges.update(_given(graphs, activation_ranges or {}, kernels or {}))
        if lowest is not None:
            content = clamp_masks(content, lowest - MASK_DISTANCE)
    ranges.update({place.result: place.table for place in graphs.tables()})
    manager = recipes.RecipeManager()
    for operation, name, add in _configurations(graphs, precision):
        add(manager, f"^{re.escape(name)};$", operation)
    recipe = manager.get_quantization_recipe()
    if not recipe:
        raise UsageError(
            f"The model has nothing to quantize in {precision}. Expected dense "
            "layers, convolutions or embeddings. Export it in fp32."
        )
    statistics = {
        name: {
            "min": np.full((1,) * rank, low, "float32"),
            "max": np.full((1,) * rank, high, "float32"),
        }
        for name, (low, high, rank) in ranges.items()
    }
    with _quietly():
        made = quantizer.Quantizer(bytearray(content), recipe)
        result = made.quantize(
            statistics or None,
            enable_progress_bar=False,
            enable_progress_report=False,
        )
    found = _Graphs(bytes(result.quantized_model))
    found.quantize_positions((kernels or {}).values())
    return packed_model(found.model)


def clamp_masks(content: bytes, constant: float) -> bytes:
    """Replaces the huge negative constants that mask attention scores.

    A masked position has a score such as -1e9 or -2.4e38. In a quantized tensor
    it sets the range, and in 16 bits it is infinite. The outputs are the same
    bit for bit if in each row of scores, which can have masked positions, the
    highest is at least `constant + 104`, or if all positions are masked.

    Args:
        content: bytes of a `.tflite` file.
        constant: float. The new constant.

    Returns:
        The bytes of the file, the same object if it has no such constant.
    """
    graphs = _Graphs(content)
    masks = list(graphs.masks())
    if not masks:
        return content
    for old in {
        id(tensor): tensor
        for graph, number, _ in masks
        for tensor in [graph.tensors[number]]
    }.values():
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.float32(constant).tobytes(), "uint8")
        graphs.model.buffers.append(buffer)
        old.buffer = len(graphs.model.buffers) - 1
    return packed_model(graphs.model)


@dataclasses.dataclass(frozen=True)
class _Product:
    """An operator with a constant weight."""

    operation: str
    result: str  # the name of its output tensor
    graph: int
    source: int  # tensor numbers
    weight: int
    output: int


@dataclasses.dataclass(frozen=True)
class _Table:
    """An operator that reads an embedding table, and the table's range."""

    operation: str
    result: str
    table: tuple
    shape: tuple


class _Graphs:
    """A parsed `.tflite` file."""

    def __init__(self, content):
        self.content = content
        self.model = schema.ModelT.InitFromPackedBuf(bytearray(content), 0)
        for buffer in self.model.buffers:
            if buffer.size:  # ai-edge-quantizer puts data behind the graphs
                end = buffer.offset + buffer.size
                data = np.frombuffer(content[buffer.offset : end], "uint8")
                buffer.data, buffer.offset, buffer.size = data, 0, 0
        self._names = {
            number: name
            for name, number in vars(schema.BuiltinOperator).items()
            if isinstance(number, int)
        }

    def operators(self):
        """Yields the graph, its number, the operator and its name."""
        for index, graph in enumerate(self.model.subgraphs):
            for operator in graph.operators:
                code = self.model.operatorCodes[operator.opcodeIndex]
                number = max(code.builtinCode, code.deprecatedBuiltinCode)
                yield graph, index, operator, self._names.get(number, "")

    def constant(self, graph, number):
        """Returns a constant float tensor as an array, otherwise `None`."""
        if number < 0:
            return None
        tensor = graph.tensors[number]
        data = self.model.buffers[tensor.buffer].data
        if (
            data is None
            or not len(data)
            or tensor.type != schema.TensorType.FLOAT32
        ):
            return None
        shape = () if tensor.shape is None else tuple(map(int, tensor.shape))
        return np.frombuffer(bytes(data), "float32").reshape(shape)

    def products(self):
        """Yields dense products and convolutions with constant weights."""
        for graph, index, operator, name in self.operators():
            if name not in ("FULLY_CONNECTED", *_CONVOLUTIONS):
                continue
            weight = self.constant(graph, operator.inputs[1])
            if weight is not None:
                yield _Product(
                    name,
                    _name(graph, operator.outputs[0]),
                    index,
                    int(operator.inputs[0]),
                    int(operator.inputs[1]),
                    int(operator.outputs[0]),
                )

    def tables(self):
        """Yields the operators that look up rows of a constant table."""
        for graph, _, operator, name in self.operators():
            if name not in _TABLES:
                continue
            table = self.constant(graph, operator.inputs[0])
            result = _name(graph, operator.outputs[0])
            is_table = name == "GATHER" or "embedding" in result
            if table is None or table.ndim < 2 or not is_table:
                continue
            shape = graph.tensors[operator.outputs[0]].shape
            high = max(float(np.abs(table).max()), 1e-6)
            yield _Table(name, result, (-high, high, len(shape)), table.shape)

    def quantize_positions(self, tables):
        """Stores added constants of embedding layers in 8 bits."""
        codes = self.model.operatorCodes
        for graph, _, operator, name in list(self.operators()):
            if name != "ADD" or "embedding" not in _name(
                graph, operator.outputs[0]
            ):
                continue
            for place, number in enumerate(operator.inputs):
                table = self.constant(graph, number)
                if table is None or min(table.shape[-2:], default=1) < 2:
                    continue
                scale, zero_point = _scale(_whole(table, tables))
                code = schema.OperatorCodeT()
                code.builtinCode = code.deprecatedBuiltinCode = (
                    schema.BuiltinOperator.DEQUANTIZE
                )
                code.version = 2
                codes.append(code)
                stored = copy.copy(graph.tensors[number])
                stored.name += b"_int8"
                stored.type = schema.TensorType.INT8
                stored.quantization = schema.QuantizationParametersT()
                stored.quantization.scale = np.array([scale], "float32")
                stored.quantization.zeroPoint = np.array([zero_point], "int64")
                buffer = schema.BufferT()
                values = np.clip(np.rint(table / scale) + zero_point, -128, 127)
                buffer.data = values.astype("int8").ravel().view("uint8")
                self.model.buffers.append(buffer)
                stored.buffer = len(self.model.buffers) - 1
                read = copy.copy(graph.tensors[number])
                read.buffer = 0  # computed
                graph.tensors += [stored, read]
                reading = schema.OperatorT()
                reading.opcodeIndex = len(codes) - 1
                reading.inputs = [len(graph.tensors) - 2]
                reading.outputs = [len(graph.tensors) - 1]
                operator.inputs[place] = len(graph.tensors) - 1
                graph.operators.insert(0, reading)
                if not any(number in other.inputs for other in graph.operators):
                    old = graph.tensors[number].buffer
                    self.model.buffers[old].data = None

    def masks(self):
        """Yields the constants that mask scores: graph, number, scores.

        A `SELECT` writes the constant in front of a softmax, or it is
        multiplied by the mask and added to the scores. Sums with the largest
        constants are omitted: they lose the scores, so that a smaller constant
        would change texts of padding alone.
        """
        for graph, index, operator, name in self.operators():
            if name in ("SELECT", "SELECT_V2"):
                number, scores = operator.inputs[2], operator.inputs[1]
                places = [(operator, scores)]
            elif name == "MUL":
                number, other = operator.inputs[1], operator.inputs[0]
                if self.constant(graph, number) is None:
                    number, other = other, number
                places = list(self._sums(index, operator.outputs[0]))
            else:
                continue
            constant = self.constant(graph, number)
            if constant is None or not (constant <= MASK_LIMIT).all():
                continue
            if name == "MUL" and (constant < ABSORBING).any():
                continue
            for place, scores in places:
                names = {user for _, user in self._readers(index, place)}
                if names == {"SOFTMAX"}:
                    yield graph, int(number), int(scores)

    def _sums(self, index, mask):
        """Yields the sums with a mask: the operator, and the scores."""
        for user, name in self._readers(index, mask):
            if name in ("EXPAND_DIMS", "RESHAPE"):
                yield from self._sums(index, user.outputs[0])
            elif name == "ADD":
                first, second = user.inputs
                yield user, second if first == mask else first

    def _readers(self, index, source):
        """Yields the operators, with names, that read an operator's result."""
        number = getattr(source, "outputs", [source])[0]
        for _, other, user, name in self.operators():
            if other == index and number in user.inputs:
                yield user, name


def _whole(rows, tables):
    """Returns the table that begins with these rows, otherwise the rows."""
    rows = rows.reshape(-1, rows.shape[-1])
    for table in map(np.asarray, tables):
        if np.array_equal(table[: len(rows)], rows):
            return table
    return rows


def _scale(table):
    """Returns scale and zero point of asymmetric 8-bit integers."""
    low, high = min(float(table.min()), 0.0), max(float(table.max()), 0.0)
    scale = max(high - low, 1e-6) / 255
    return scale, round(-128 - low / scale)


def _name(graph, number):
    return graph.tensors[number].name.decode()


def _configurations(graphs, precision):
    """Yields for each place the operation, its name, and how it is added."""
    bits = CALIBRATED.get(precision)

    def static(manager, regex, operation):
        manager.add_static_config(regex, operation, bits or 8, 8)

    def dynamic(manager, regex, operation, num_bits=8, block=False):
        granularity = f"BLOCKWISE_{BLOCK}" if block else "CHANNELWISE"
        manager.add_dynamic_config(regex, operation, num_bits, granularity)

    tables = list(graphs.tables())
    shapes = {place.shape for place in tables}
    for product in graphs.products():
        if bits:
            yield product.operation, product.result, static
            continue
        graph = graphs.model.subgraphs[product.graph]
        shape = graphs.constant(graph, product.weight).shape
        is_small = product.operation == "FULLY_CONNECTED"
        is_small &= shape not in shapes

        def add(manager, regex, operation, shape=shape, is_small=is_small):
            if not is_small:
                dynamic(manager, regex, operation)
                return
            dynamic(manager, regex, operation, 4, shape[1] % BLOCK == 0)

        yield product.operation, product.result, add
    for place in tables:
        yield place.operation, place.result, _static_table


def _static_table(manager, regex, operation):
    manager.add_static_config(regex, operation, 8, 8)


def _calibrated(graphs, batches):
    """Runs the fp32 file and returns ranges by name, and the lowest score.

    The interpreter runs without its delegate, which would fuse operators.
    """
    runner = interpreter.Interpreter(
        model_content=graphs.content,
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=(
            interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        ),
    )
    main = graphs.model.subgraphs[0]
    numbers = {
        number
        for product in graphs.products()
        for number in (product.source, product.output)
        if product.graph == 0
    }
    scores = {number for graph, _, number in graphs.masks() if graph is main}
    found = {number: (math.inf, -math.inf) for number in numbers | scores}
    ranks = dict.fromkeys(found, 1)
    inputs = {
        input_name(one["name"]): one for one in runner.get_input_details()
    }
    shape = None
    for batch in _small(batches or ()):
        batch = {name: batch[name] for name in inputs}
        if batch_shape(batch) != shape:
            shape = batch_shape(batch)
            for name, detail in inputs.items():
                runner.resize_tensor_input(detail["index"], batch[name].shape)
            runner.allocate_tensors()
        for name, detail in inputs.items():
            runner.set_tensor(detail["index"], batch[name])
        runner.invoke()
        for number, (low, high) in found.items():
            value = runner.get_tensor(number)
            ranks[number] = value.ndim
            found[number] = (
                min(low, float(value.min())),
                max(high, float(value.max())),
            )
    ranges = {
        _name(main, number): (*found[number], ranks[number])
        for number in numbers
        if found[number][0] <= found[number][1]
    }
    lowest = min((found[number][0] for number in scores), default=math.inf)
    return ranges, lowest if math.isfinite(lowest) else None


def _small(batches):
    """Yields batches of at most `BATCH_SIZE` rows."""
    for batch in batches:
        rows = len(next(iter(batch.values())))
        for start in range(0, rows, BATCH_SIZE):
            chosen = slice(start, start + BATCH_SIZE)
            yield {name: value[chosen] for name, value in batch.items()}


def _given(graphs, ranges, kernels):
    """Returns the given ranges by the names of tensors."""
    unknown = sorted(set(ranges) - set(kernels))
    if unknown:
        raise UsageError(
            f"`activation_ranges` has layers without a kernel: {unknown}. "
            f"Expected paths such as {sorted(kernels)[:3]}. Pass the `path` of "
            "the model's dense layers."
        )
    by_kernel = {}
    for path, found in ranges.items():
        kernel = np.asarray(kernels[path], "float32")
        rows = {len(kernel), math.prod(kernel.shape[:-1])}
        for count in rows:
            matrix = np.ascontiguousarray(kernel.reshape(count, -1).T)
            by_kernel[_digest(matrix)] = found
    result = {}
    for product in graphs.products():
        graph = graphs.model.subgraphs[product.graph]
        found = by_kernel.get(_digest(graphs.constant(graph, product.weight)))
        for number, limits in zip(
            (product.source, product.output), found or (), strict=False
        ):
            if limits is not None:
                tensor = graph.tensors[number]
                result[_name(graph, number)] = (*limits, len(tensor.shape))
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
