"""The graphs in a `.tflite` file: their products and tables."""

import dataclasses

import numpy as np

from kdkit.late import LateModule

schema = LateModule("ai_edge_litert.schema_py_generated", "ai-edge-litert")
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
            if name != "GATHER":
                continue
            table = self.constant(graph, operator.inputs[0])
            result = tensor_name(graph, operator.outputs[0])
            if table is None or table.ndim < 2:
                continue
            shape = graph.tensors[operator.outputs[0]].shape
            high = max(float(np.abs(table).max()), 1e-6)
            yield Table(name, result, (-high, high, len(shape)), table.shape)


def tensor_name(graph, number: int) -> str:
    """Returns the name of a tensor of a graph."""
    return graph.tensors[number].name.decode()
