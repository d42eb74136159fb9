"""The graphs in a `.tflite` file: their products, tables and tied tables."""

import copy
import dataclasses
import pathlib

import numpy as np

from kdkit.export.litert_files import packed_model, schema

_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
# The scale and zero point per row: what a table costs in a second graph.
SCALE_BYTES = 4 + 8


@dataclasses.dataclass(frozen=True)
class Product:
    """An operator with a constant weight."""

    operation: str
    result: str  # the name of its output tensor
    graph: int
    weight: np.ndarray
    source: int  # tensor numbers
    output: int


@dataclasses.dataclass(frozen=True)
class Table:
    """An operator that reads an embedding table, and the result's range."""

    operation: str
    result: str
    limits: tuple  # low, high and the number of axes
    weight: np.ndarray


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
        shape = shape_of(graph, number)
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
                    weight,
                    int(operator.inputs[0]),
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
            yield Table(name, result, (-high, high, len(shape)), table)


def tensor_name(graph, number: int) -> str:
    """Returns the name of a tensor of a graph."""
    return graph.tensors[number].name.decode()


def shape_of(graph, number: int) -> tuple[int, ...]:
    """Returns the shape of a tensor of a graph."""
    shape = graph.tensors[number].shape
    return () if shape is None else tuple(map(int, shape))


def share_table(path: pathlib.Path) -> None:
    """Makes a file's embedding look up rows in its output matrix."""
    graphs = Graphs(path.read_bytes())
    matrices = [
        (graph, operator.inputs[1])
        for graph, _, operator, name in graphs.operators()
        if name == "FULLY_CONNECTED"
        and _is_quantized(graph, operator.inputs[1], by_row=True)
    ]
    found = [*_lookups(graphs, matrices)]
    for graph, gather, dequantize, twin in found:
        _look_up_rows(graphs.model, graph, gather, dequantize, twin)
    if found:
        path.write_bytes(packed_model(graphs.model))


def _lookups(graphs, matrices):
    """Yields each lookup in a table that is also an output matrix by rows."""
    operators = [*graphs.operators()]
    for graph, _, operator, name in operators:
        if name != "GATHER":
            continue
        table, ids = operator.inputs
        users = [
            (user, its_name)
            for other, _, user, its_name in operators
            if other is graph and operator.outputs[0] in user.inputs
        ]
        if (
            not _is_quantized(graph, table, by_row=False)
            or len(shape_of(graph, ids)) != 1
            or [its_name for _, its_name in users] != ["DEQUANTIZE"]
        ):
            continue
        width = shape_of(graph, table)[-1]
        for twin in matrices:
            is_worth_it = twin[0] is graph or width > SCALE_BYTES
            if is_worth_it and _are_one_matrix(graphs, (graph, table), twin):
                yield graph, operator, users[0][0], twin
                break


def _are_one_matrix(graphs, table, twin):
    """Whether two quantized tables represent the same numbers."""
    if shape_of(*table) != shape_of(*twin):
        return False
    (rows, steps), (twin_rows, twin_steps) = (
        _rows_and_steps(graphs.model, *place) for place in (table, twin)
    )
    difference = abs(rows - twin_rows)
    return bool((difference <= 0.51 * (steps + twin_steps)).all())


def _look_up_rows(model, graph, gather, dequantize, twin):
    old, table = gather.inputs[0], _tensor_in(graph, twin)
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = (
        schema.BuiltinOperator.EMBEDDING_LOOKUP
    )
    code.version = 1
    model.operatorCodes.append(code)
    gather.opcodeIndex = len(model.operatorCodes) - 1
    gather.builtinOptions, gather.builtinOptionsType = None, 0
    gather.inputs = [int(gather.inputs[1]), int(table)]
    gather.outputs = [int(dequantize.outputs[0])]
    graph.operators.remove(dequantize)
    # Tensors are referenced by number, so the old one stays, but without data
    # if no other lookup needs them.
    data = graph.tensors[old].buffer
    users = [
        number
        for other in model.subgraphs
        for operator in other.operators
        for number in operator.inputs
        if number >= 0 and other.tensors[number].buffer == data
    ]
    if not users:
        model.buffers[data].data = None


def _tensor_in(graph, twin):
    """Returns the number of a table in a graph; may add the table to it."""
    own_graph, number = twin
    if own_graph is graph:
        return number
    buffer = own_graph.tensors[number].buffer
    for known, tensor in enumerate(graph.tensors):
        if tensor.buffer == buffer:
            return known
    graph.tensors.append(copy.copy(own_graph.tensors[number]))
    return len(graph.tensors) - 1


def _is_quantized(graph, number, *, by_row):
    tensor = graph.tensors[number]
    scale = getattr(tensor.quantization, "scale", None)
    if tensor.type != schema.TensorType.INT8 or scale is None:
        return False
    rows = shape_of(graph, number)[0]
    return len(scale) == (rows if by_row else 1)


def _rows_and_steps(model, graph, number):
    """Returns the rows of a quantized table, and the step of each."""
    tensor = graph.tensors[number]
    data = model.buffers[tensor.buffer].data.view("int8")
    steps = np.asarray(tensor.quantization.scale)[:, None]
    zero_points = np.asarray(tensor.quantization.zeroPoint)[:, None]
    integers = data.reshape(shape_of(graph, number)).astype("float32")
    return (integers - zero_points) * steps, steps
