"""The graphs in a `.tflite` file: their products and tables."""

import copy
import dataclasses

import numpy as np

from kdkit.backends import LateModule

schema = LateModule("ai_edge_litert.schema_py_generated", "ai-edge-litert")
_TABLES = ("GATHER", "BROADCAST_TO", "SLICE", "STRIDED_SLICE")
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")


@dataclasses.dataclass(frozen=True)
class Product:
    """An operator with a constant weight."""

    operation: str
    result: str  # the name of its output tensor
    graph: int
    source: int  # tensor numbers
    weight: int
    output: int


@dataclasses.dataclass(frozen=True)
class Table:
    """An operator that reads an embedding table, and the table's range."""

    operation: str
    result: str
    table: tuple
    shape: tuple


class Graphs:
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
                yield Product(
                    name,
                    tensor_name(graph, operator.outputs[0]),
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
            result = tensor_name(graph, operator.outputs[0])
            is_table = name == "GATHER" or "embedding" in result
            if table is None or table.ndim < 2 or not is_table:
                continue
            shape = graph.tensors[operator.outputs[0]].shape
            high = max(float(np.abs(table).max()), 1e-6)
            yield Table(name, result, (-high, high, len(shape)), table.shape)

    def quantize_positions(self, tables):
        """Stores added constants of embedding layers in 8 bits."""
        codes = self.model.operatorCodes
        for graph, _, operator, name in list(self.operators()):
            if name != "ADD" or "embedding" not in tensor_name(
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


def tensor_name(graph, number: int) -> str:
    """Returns the name of a tensor of a graph."""
    return graph.tensors[number].name.decode()
