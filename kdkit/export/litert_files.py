"""The LiteRT interpreter, and `.tflite` files that read whole sequences."""

import pathlib

import numpy as np

from kdkit.export import metadata
from kdkit.export.inputs import BatchFile, batch_shape
from kdkit.late import LateModule

flatbuffers = LateModule("flatbuffers", "flatbuffers")
interpreter = LateModule("ai_edge_litert.interpreter", "ai-edge-litert")
schema = LateModule("ai_edge_litert.schema_py_generated", "ai-edge-litert")
SUFFIX = ".tflite"
IDENTIFIER = b"TFL3"
ALIGNMENT = 16  # bytes, of the weights in a file, as the schema requires
ANY = -1  # a dynamic dimension in a shape signature


class LiteRTModel(BatchFile):
    """A `.tflite` file that is called like the Keras model it was made from.

    Batches shorter than a fixed sequence length are padded. A file with batch
    size 1 runs one row after another. The interpreter is resized when the shape
    of the batches changes. `sequence_length` and `batch_size` are the file's
    fixed sizes, or `None`; `metadata` is what `to_litert` wrote about the
    model, or `None`.

    Args:
        path: string or path. A `.tflite` file with the int32 inputs
            `token_ids`, `segment_ids` and `padding_mask`, or some of them, or
            with one float32 input, and one output, written by `to_litert`.
        threads: int. The number of CPU threads. Defaults to `1`.
        delegate: string or `None`, as in `kdkit.export.measure_latencies`.
        **options: other arguments of LiteRT's `Interpreter`.

    Attributes:
        interpreter: LiteRT's `Interpreter`.

    Call arguments:
        batch: dict of integer arrays of shape `(batch_size,
            sequence_length)`. Inputs that the file does not have are ignored.
            For a file with a float32 input an array of numbers.

    Returns:
        A NumPy array, the logits of shape `(batch_size, num_classes)`, or the
        probabilities if the file contains them (`metadata.outputs`); one row
        per question for a multiple choice, whose options are rows; for tokens
        `(batch_size, sequence_length, num_classes)`.

    Example:

    ```python
    student = kdkit.export.LiteRTModel("student-int8.tflite")
    logits = student({"token_ids": ids, "padding_mask": ids != 0, ...})
    ```
    """

    def __init__(
        self,
        path: str | pathlib.Path,
        threads: int = 1,
        delegate: str | None = None,
        **options,
    ):
        self.path = pathlib.Path(path)
        self.metadata = metadata.read(self.path)
        self.interpreter = new_interpreter(path, threads, delegate, **options)
        self._inputs = {
            input_name(detail["name"]): detail
            for detail in self.interpreter.get_input_details()
        }
        first = next(iter(self._inputs.values()))
        shape = (
            None if size == ANY else int(size)
            for size in first["shape_signature"]
        )
        self.read_sizes(self._inputs, shape, first["dtype"] == np.float32)
        # Tensors are allocated for the first batch: LiteRT's own shape has one
        # row, and a multiple choice cannot be made of one option.
        self._shape = None

    @property
    def tensor_names(self) -> dict[str, str]:
        """The names of the inputs in the file, by the names in a batch."""
        return {name: detail["name"] for name, detail in self._inputs.items()}

    def set_inputs(self, batch):
        shape = batch_shape(batch)
        if shape != self._shape:
            for detail in self._inputs.values():
                self.interpreter.resize_tensor_input(detail["index"], shape)
            self.interpreter.allocate_tensors()
            self._shape = shape
        for name, detail in self._inputs.items():
            self.interpreter.set_tensor(detail["index"], batch[name])

    def invoke(self):
        self.interpreter.invoke()

    def output(self):
        (detail,) = self.interpreter.get_output_details()
        return self.interpreter.get_tensor(detail["index"])


def new_interpreter(path, threads, delegate=None, **options):
    """Returns LiteRT's interpreter for a file."""
    if delegate == "none":
        kernels = interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        options["experimental_op_resolver_type"] = kernels
    return interpreter.Interpreter(str(path), num_threads=threads, **options)


def input_name(tensor: str) -> str:
    """Returns `token_ids` for the converter's `serving_default_token_ids:0`."""
    return tensor.removeprefix("serving_default_").split(":")[0]


class _Aligned:
    """A buffer of a model whose data are aligned in the file."""

    def __init__(self, buffer):
        self._buffer = buffer

    def Pack(self, builder):  # noqa: N802
        data = self._buffer.data
        if data is None or not len(data):
            return self._buffer.Pack(builder)
        data = np.asarray(data, "uint8").tobytes()
        builder.StartVector(1, len(data), ALIGNMENT)
        builder.head = builder.Head() - len(data)
        builder.Bytes[builder.Head() : builder.Head() + len(data)] = data
        vector = builder.EndVector()
        schema.BufferStart(builder)
        schema.BufferAddData(builder, vector)
        return schema.BufferEnd(builder)


def packed_model(model) -> bytes:
    """Returns the flat buffer of a `.tflite` file, with aligned weights."""
    buffers = model.buffers
    model.buffers = [_Aligned(buffer) for buffer in buffers]
    builder = flatbuffers.Builder()
    try:
        builder.Finish(model.Pack(builder), IDENTIFIER)
    finally:
        model.buffers = buffers
    return bytes(builder.Output())
