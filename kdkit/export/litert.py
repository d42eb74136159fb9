"""Keras models to LiteRT (`.tflite`) files."""

import pathlib

from kdkit.backends import need_tensorflow
from kdkit.backends import tf
from kdkit.errors import UsageError
from kdkit.export.interface import interface
from kdkit.export.litert_model import LiteRTModel
from kdkit.export.options import check_arguments
from kdkit.export.options import converter_options
from kdkit.export.report import ExportReport
from kdkit.export.untrained import warn_of_untrained_layers
from kdkit.export.verification import reference_outputs
from kdkit.export.verification import verification_batches
from kdkit.export.writing import write_verified
from kdkit.policies import as_float32


def to_litert(
    model,
    path: str | pathlib.Path,
    precision: str = "fp32",
    sequence_length: int | None = None,
    verification_data=None,
    overwrite: bool = False,
) -> ExportReport:
    """Writes a model as a LiteRT file, checked against the Keras model.

    The file takes the int32 inputs `token_ids`, `segment_ids` and
    `padding_mask` (those that the model has) of shape `(batch_size,
    sequence_length)` and returns the logits. It takes any batch size, but
    only 1 if the model has recurrent layers: LiteRT's own operations have no
    loop over a batch of unknown size. A file that is not resized has batch
    size 1. A fixed sequence length is a little faster (about a tenth for a
    TinyBERT of four layers) than a dynamic one; DeBERTa-v3 and
    RoFormerV2 need one.

    Models in mixed or half precision are exported and compared as float32
    models with the same weights.

    Args:
        model: a functional Keras model with a dict of inputs and one output,
            such as `keras_hub.models.BertTextClassifier`. A preprocessor is
            not exported.
        path: string or path. Ends in `.tflite`.
        precision: string. `"fp32"`; `"fp16"`, weights stored in 16 bits; or
            `"int8"`, dynamic range quantisation: weights stored in 8 bits,
            activations quantised as they come. Defaults to `"fp32"`.
        sequence_length: int or `None`. The only length that the file takes,
            in tokens, or `None` for any. Defaults to `None`.
        verification_data: iterable of batches, dicts of integer arrays or
            tuples that start with one. Defaults to generated batches.
        overwrite: bool. Whether to replace a file. Defaults to `False`.

    Returns:
        An `ExportReport` with the differences from the Keras model.

    Warns:
        UserWarning: if a `kdkit.Distiller` trained the model and never reached
            layers behind the output, such as a head with random weights.

    Raises:
        UsageError: (a `ValueError`) if an argument is wrong, or the file
            exists. Nothing is written.
        RunError: (a `RuntimeError`) if the outputs of the model or the file
            are not finite, or those of the file have another shape or, in
            fp32, differ by more than 1e-4. No file is left.

    Example:

    ```python
    report = kdkit.export.to_litert(
        student, "student-int8.tflite", precision="int8", sequence_length=128
    )
    report.same_top_class
    ```
    """
    need_tensorflow("Export to LiteRT")
    path = pathlib.Path(path)
    check_arguments(path, precision, overwrite)
    model_interface = interface(model)
    length = model_interface.export_length(sequence_length)
    _check_length(length, model_interface.family)
    batches = verification_batches(verification_data, model_interface, length)
    warn_of_untrained_layers(model, batches[0])
    model = as_float32(model)
    expected = reference_outputs(model, batches)
    batch_size = 1 if model_interface.recurrent else None
    signature = {
        name: tf.TensorSpec((batch_size, length), "int32", name)
        for name in model_interface.input_names
    }

    def write(partial):
        model.export(
            partial,
            format="litert",
            verbose=False,
            input_signature=[signature],
            **converter_options(precision),
        )

    return write_verified(
        path,
        write,
        LiteRTModel,
        model,
        batches,
        expected,
        precision,
        length,
        vocabulary_size=model_interface.vocabulary_size,
        rows_per_output=model_interface.rows_per_output,
    )


def _check_length(length, family):
    """Refuses an open length where LiteRT needs a fixed one."""
    if length is None and family is not None and family.needs_fixed_length:
        raise UsageError(
            f"{family.title} cannot be exported to LiteRT for any length: "
            f"{family.needs_fixed_length}. Expected a fixed one. Received: "
            "sequence_length=None. Pass for example sequence_length=128."
        )
