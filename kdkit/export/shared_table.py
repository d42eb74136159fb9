"""Merges two copies of the token embeddings in a file with 8-bit weights.

A language model looks tokens up in the matrix that its logits are computed
with. LiteRT's converter quantizes the two uses separately, one per table and
the other per row, and writes both. For a model with GPT-2's vocabulary the
second copy is more than a third of the file. LiteRT can also look up rows with
one scale each (`EMBEDDING_LOOKUP`), which is also more exact.

Files are flat buffers; `ai_edge_litert.schema_py_generated` is their schema.
"""

import copy
import pathlib

from kdkit.backends import LateModule

flatbuffers = LateModule("flatbuffers", "flatbuffers")
schema = LateModule("ai_edge_litert.schema_py_generated", "ai-edge-litert")
IDENTIFIER = b"TFL3"  # a LiteRT file's
# The scale and zero point per row: what a table costs in a second graph.
SCALE_BYTES = 4 + 8


def share_table(path: pathlib.Path) -> bool:
    """Makes a file's embedding look up rows in its output matrix.

    Only if both are the same matrix, quantized to 8 bits. The caller verifies
    the resulting file.

    Args:
        path: `pathlib.Path` of a `.tflite` file without anything after its
            flat buffer, under its temporary name.

    Returns:
        Whether there was such a table. If not, the file is unchanged.
    """
    model = schema.ModelT.InitFromPackedBuf(bytearray(path.read_bytes()), 0)
    matrices = [
        (graph, operator.inputs[1])
        for graph in model.subgraphs
        for operator in graph.operators
        if _code(model, operator) == schema.BuiltinOperator.FULLY_CONNECTED
        and _is_quantized(graph, operator.inputs[1], by_row=True)
    ]
    found = [
        place
        for graph in model.subgraphs
        for place in _lookups(model, graph, matrices)
    ]  # fmt: skip
    if not found:
        return False
    for graph, gather, dequantize, twin in found:
        _look_up_rows(model, graph, gather, dequantize, twin)
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), IDENTIFIER)
    path.write_bytes(builder.Output())
    return True


def _lookups(model, graph, matrices):
    """Yields each lookup in a table that is also an output matrix by rows.

    Each is a tuple of the graph, the lookup, the operator that converts its
    result to floats, and the matrix: its graph, which may belong to another
    signature, and its number.
    """
    for operator in graph.operators:
        if _code(model, operator) != schema.BuiltinOperator.GATHER:
            continue
        table, ids = operator.inputs
        users = [
            user
            for user in graph.operators
            if operator.outputs[0] in user.inputs
        ]
        if (
            not _is_quantized(graph, table, by_row=False)
            or len(_shape(graph, ids)) != 1
            or [_code(model, user) for user in users]
            != [schema.BuiltinOperator.DEQUANTIZE]
        ):
            continue
        width = _shape(graph, table)[-1]
        for twin in matrices:
            is_worth_it = twin[0] is graph or width > SCALE_BYTES
            if is_worth_it and _are_one_matrix(model, (graph, table), twin):
                yield graph, operator, users[0], twin
                break


def _are_one_matrix(model, table, twin):
    """Whether two quantized tables represent the same numbers.

    They may differ by half a step of each.
    """
    if _shape(*table) != _shape(*twin):
        return False
    by_table, by_row = (
        (graph.tensors[number], _values(model, graph, number))
        for graph, number in (table, twin)
    )
    step = by_table[0].quantization.scale[0]
    steps = by_row[0].quantization.scale[:, None]
    difference = abs(by_table[1] * step - by_row[1] * steps)
    return bool((difference <= 0.51 * (step + steps)).all())


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
    """Returns the number of a table in a graph; may add the table to it.

    Tensors belong to one graph. Their data, the buffers, belong to all graphs.
    """
    own_graph, number = twin
    if own_graph is graph:
        return number
    buffer = own_graph.tensors[number].buffer
    for known, tensor in enumerate(graph.tensors):
        if tensor.buffer == buffer:
            return known
    graph.tensors.append(copy.copy(own_graph.tensors[number]))
    return len(graph.tensors) - 1


def _code(model, operator):
    code = model.operatorCodes[operator.opcodeIndex]
    return max(code.builtinCode, code.deprecatedBuiltinCode)


def _shape(graph, tensor):
    shape = graph.tensors[tensor].shape
    return () if shape is None else tuple(map(int, shape))


def _is_quantized(graph, number, *, by_row):
    tensor = graph.tensors[number]
    scale = getattr(tensor.quantization, "scale", None)
    if tensor.type != schema.TensorType.INT8 or scale is None:
        return False
    rows = _shape(graph, number)[0]
    return len(scale) == (rows if by_row else 1)


def _values(model, graph, number):
    tensor = graph.tensors[number]
    data = model.buffers[tensor.buffer].data.view("int8")
    return data.reshape(_shape(graph, number)).astype("float32")
