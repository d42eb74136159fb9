"""Exports Keras models to ONNX files, and runs them with ONNX Runtime.

Needs the packages of the extra `onnx`. tf2onnx converts the model, and ONNX
Runtime folds its constants and quantizes its weights.
"""

import contextlib
import functools
import logging
import pathlib

from kdkit.errors import require_extra
from kdkit.export import metadata
from kdkit.export.exporters import Exporter, get_exporter, register_exporter
from kdkit.export.inputs import (
    DECODER,
    ENCODER,
    TENSORS,
    BatchFile,
)
from kdkit.exported import ExportReport
from kdkit.late import LateModule, tf

onnx = LateModule("onnx", "onnx")
onnxruntime = LateModule("onnxruntime", "onnxruntime")
quantization = LateModule("onnxruntime.quantization", "onnxruntime")
tf2onnx = LateModule("tf2onnx", "tf2onnx")
SUFFIX = ".onnx"
PROPERTY = "kdkit"  # the metadata property with kdkit's entry
ERRORS_ONLY = 3  # a log level of ONNX Runtime


@register_exporter("onnx")
class ONNX(Exporter):
    """The ONNX format: one file for ONNX Runtime, for any batch and length."""

    title = "ONNX"
    suffix = SUFFIX
    precisions = ("fp32", "int8")
    kinds = (ENCODER, DECODER, TENSORS)

    def require_packages(self):
        require_extra("onnx", "onnx", "tf2onnx", "onnxruntime")

    def write(self, source, path, precision):
        with _without_notices():
            model = _converted(source)
            _replace_erfc(model.graph)
            _enable_quantization(model.graph)
            _name_axes(model.graph, source)
            onnx.save(model, path)
            # Folds constants, such as weights that tf2onnx reshapes.
            quantization.quant_pre_process(path, path, skip_symbolic_shape=True)
            if precision == "int8":
                quantization.quantize_dynamic(
                    path,
                    path,
                    per_channel=True,
                    weight_type=quantization.QuantType.QInt8,
                )

    def annotate(self, path, entry):
        # Concatenated messages are merged.
        added = onnx.ModelProto()
        added.metadata_props.add(key=PROPERTY, value=metadata.to_json(entry))
        with open(path, "ab") as file:
            file.write(added.SerializeToString())

    def open(self, path, threads=1):
        return ONNXModel(path, threads)


class ONNXModel(BatchFile):
    """Runs an `.onnx` file from `to_onnx` on CPU threads.

    Called with a batch, a dict of integer arrays of shape `(batch_size,
    sequence_length)`, it returns the logits as a NumPy array. Shorter batches
    are padded if the file accepts only one length.

    Args:
        path: string or path. The file.
        threads: int. The number of CPU threads. Defaults to `1`.

    Example:

    ```python
    student = kdkit.export.ONNXModel("student-int8.onnx")
    logits = student({"token_ids": ids, "padding_mask": ids != 0, ...})
    ```
    """

    def __init__(self, path: str | pathlib.Path, threads: int = 1):
        self.path = pathlib.Path(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = ERRORS_ONLY
        self._session = onnxruntime.InferenceSession(
            str(self.path), options, providers=["CPUExecutionProvider"]
        )
        properties = self._session.get_modelmeta().custom_metadata_map
        if PROPERTY in properties:
            self.metadata = metadata.parse(properties[PROPERTY])
        inputs = {given.name: given for given in self._session.get_inputs()}
        first = next(iter(inputs.values()))
        # Strings where dynamic.
        shape = (
            size if isinstance(size, int) else None for size in first.shape
        )
        self.read_sizes(inputs, shape, first.type == "tensor(float)")

    def set_inputs(self, batch):
        self._inputs = {name: batch[name] for name in self.input_names}

    def invoke(self):
        (self._logits,) = self._session.run(None, self._inputs)

    def output(self):
        return self._logits


def to_onnx(
    model,
    path: str | pathlib.Path,
    precision: str = "fp32",
    sequence_length: int | None = None,
    verification_data=None,
    overwrite: bool = False,
    dimensions: int | None = None,
) -> ExportReport:
    """Writes a model as an ONNX file, checked against the Keras model.

    The file takes the int32 inputs `token_ids`, `segment_ids` and
    `padding_mask` (those that the model has) of shape `(batch_size,
    sequence_length)`, of any batch size and by default any length, and returns
    `logits`, or for an embedder `sentence_embedding`. ONNX Runtime runs it;
    `kdkit.export.ONNXModel` does so from Python. Needs
    `pip install '.[onnx]'` in a clone of kdkit.

    Models in mixed or half precision are exported as in `to_litert`.

    Args:
        model: as in `to_litert`, but not an encoder-decoder. A decoder becomes
            a file that reads whole sequences and returns the logits of every
            position.
        path: string or path. Ends in `.onnx`.
        precision: string. `"fp32"`; or `"int8"`, dynamic quantization by ONNX
            Runtime: weights of matrix products and embedding tables stored in
            8 bits, activations quantized at run time. Defaults to `"fp32"`.
        sequence_length: int or `None`. The only length that the file accepts,
            in tokens. Defaults to `None`, any length.
        verification_data: batches, as in `to_litert`.
        overwrite: bool. Whether to replace a file. Defaults to `False`.
        dimensions: int or `None`, as in `to_litert`. Defaults to `None`.

    Returns:
        An `ExportReport` with the differences from the Keras model.

    Warns:
        UserWarning: as in `to_litert`.

    Raises:
        UsageError: (a `ValueError`) as in `to_litert`, or if a package is
            missing. Nothing is written.
        RunError: (a `RuntimeError`) as in `to_litert`. No file remains.

    Example:

    ```python
    kdkit.export.to_onnx(student, "student-int8.onnx", precision="int8")
    ```
    """
    return get_exporter("onnx").export(
        model,
        path,
        precision,
        sequence_length,
        verification_data=verification_data,
        overwrite=overwrite,
        dimensions=dimensions,
    )


@contextlib.contextmanager
def _without_notices():
    """Hides notices from tf2onnx and the quantizer, not errors."""
    previous = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(previous)


def _converted(source):
    """Converts a model. Keras' `export` makes inputs of its constants."""
    function = tf.function(
        functools.partial(source.model, training=False),
        source.signature(),
        autograph=False,
    ).get_concrete_function()
    names = sorted(source.input_names)  # the order of the function's inputs
    inputs = [tensor.name for tensor in function.inputs[: len(names)]]
    outputs = [tensor.name for tensor in function.outputs]
    names.append(source.outputs if source.is_embedder else "logits")
    model, _ = tf2onnx.convert.from_graph_def(
        tf2onnx.tf_loader.from_function(function, inputs, outputs),
        input_names=inputs,
        output_names=outputs,
        tensors_to_rename=dict(zip([*inputs, *outputs], names, strict=True)),
    )
    return model


def _replace_erfc(graph):
    """Replaces `Erfc`, which TensorFlow uses in GELU and ONNX does not have."""
    nodes = list(graph.node)
    if not any(node.op_type == "Erfc" for node in nodes):
        return
    one = onnx.helper.make_tensor("kdkit_one", onnx.TensorProto.FLOAT, (), [1])
    graph.initializer.append(one)
    del graph.node[:]
    for node in nodes:
        if node.op_type != "Erfc":
            graph.node.append(node)
            continue
        erf = f"{node.output[0]}_erf"
        graph.node.append(onnx.helper.make_node("Erf", node.input, [erf]))
        graph.node.append(
            onnx.helper.make_node("Sub", [one.name, erf], node.output)
        )


def _enable_quantization(graph):
    """Resets `beta` of each `Gemm` without bias: the quantizer skips it."""
    for node in graph.node:
        if node.op_type == "Gemm" and len(node.input) == 2:
            for attribute in node.attribute:
                if attribute.name == "beta":
                    attribute.f = 1.0


def _name_axes(graph, source):
    """Names the dynamic axes; tf2onnx numbers them."""
    (output,) = graph.output
    rows = "batch_size" if source.rows_per_output == 1 else "num_questions"
    for tensor, first in (
        *((given, "batch_size") for given in graph.input),
        (output, rows),
    ):
        axes = tensor.type.tensor_type.shape.dim
        names = [first, *(f"axis_{n}" for n in range(1, len(axes)))]
        if source.kind != TENSORS:
            names[1:] = ["sequence_length"]
        for axis, name in zip(axes, names, strict=False):
            if not axis.HasField("dim_value"):
                axis.dim_param = name
    del graph.value_info[:]  # it contains the old names of the axes
