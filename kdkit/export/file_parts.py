"""Where the bytes of a `.tflite` file are: the parts of the model."""

import pathlib
import re

from kdkit.backends import LateModule

schema = LateModule("ai_edge_litert.schema_py_generated", "ai-edge-litert")
OTHER = "graph and metadata"
_LOOKUPS = ("GATHER", "EMBEDDING_LOOKUP")
# The first pattern in a tensor's name decides. Names are those of the layers.
_PARTS = {
    "embeddings": r"embedding",
    "attention": r"attention|attn|relative|disentangled|"
    r"\b(query|key|value)(_\d+)?/",
    "feed-forward": r"feed_?forward|ffn|mlp|intermediate",
    "recurrent layers": r"lstm|gru|rnn",
    "head": r"logits|pool|classifier|head|dense|lm_",
    "other layers": r"norm",
}


def bytes_by_part(path: pathlib.Path) -> dict[str, int]:
    """Returns how many bytes of a LiteRT file each part of the model takes."""
    content = path.read_bytes()
    model = schema.Model.GetRootAs(content, 0)
    sizes = [
        model.Buffers(number).DataLength()
        for number in range(model.BuffersLength())
    ]
    found = dict.fromkeys([*_PARTS, OTHER], 0)
    counted = set()
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        readers = _first_readers(model, graph)
        for number in range(graph.TensorsLength()):
            tensor = graph.Tensors(number)
            buffer = tensor.Buffer()
            if sizes[buffer] and buffer not in counted:
                counted.add(buffer)
                reader, part = readers.get(number, (b"", None))
                # A decoder's step has no name of a model before the layers'.
                found[
                    _part(tensor.Name())
                    or _part(reader)
                    or part
                    or _part(b"/" + reader)
                    or OTHER
                ] += sizes[buffer]
    found[OTHER] += len(content) - sum(found.values())
    return {part: size for part, size in found.items() if size}


def _first_readers(model, graph):
    """The name of the result of each tensor's first reader, by number."""
    lookups = [getattr(schema.BuiltinOperator, name) for name in _LOOKUPS]
    found = {}
    for operator in map(graph.Operators, range(graph.OperatorsLength())):
        if operator.OutputsLength():
            name = graph.Tensors(operator.Outputs(0)).Name()
            code = model.OperatorCodes(operator.OpcodeIndex())
            number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
            part = "embeddings" if number in lookups else None
            for place in range(operator.InputsLength()):
                found.setdefault(operator.Inputs(place), (name, part))
    return found


def _part(name):
    """The part of a layer by its name, `None` for other names."""
    if name is None or b"/" not in name:
        return None
    text = name.decode(errors="replace").lower()
    for part, pattern in _PARTS.items():
        if re.search(pattern, text.partition("/")[2]):
            return part
    return None
