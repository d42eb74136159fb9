"""Keras models to TensorFlow SavedModels."""

import pathlib

import numpy as np

from kdkit.backends import need_tensorflow
from kdkit.backends import tf
from kdkit.errors import UsageError
from kdkit.export.interface import interface
from kdkit.export.opening import is_saved_model
from kdkit.export.report import ExportReport
from kdkit.export.untrained import warn_of_untrained_layers
from kdkit.export.verification import FP32_TOLERANCE
from kdkit.export.verification import compare
from kdkit.export.verification import reference_outputs
from kdkit.export.verification import verification_batches
from kdkit.files import staged
from kdkit.policies import as_float32


def to_saved_model(
    model,
    path: str | pathlib.Path,
    verification_data=None,
    overwrite: bool = False,
) -> ExportReport:
    """Writes a model as a SavedModel, checked against the Keras model.

    The endpoint `serve` takes a dict of the int32 tensors `token_ids`,
    `segment_ids` and `padding_mask` (those that the model has), of any batch
    size and any sequence length, and returns the logits:

    ```python
    student = tf.saved_model.load("student")
    logits = student.serve({"token_ids": ids, ...})
    ```

    Models in mixed or half precision are exported as in `to_litert`.

    Args:
        model: as in `to_litert`.
        path: string or path. The folder to write.
        verification_data: as in `to_litert`.
        overwrite: bool. Whether to replace a SavedModel. Defaults to `False`.

    Returns:
        An `ExportReport` with the differences from the Keras model.

    Warns:
        UserWarning: if a `kdkit.Distiller` trained the model and never reached
            layers behind the output, such as a head with random weights.

    Raises:
        UsageError: (a `ValueError`) if an argument is wrong, or the path
            exists. Nothing is written.
        RunError: (a `RuntimeError`) if the outputs of the model or the
            SavedModel are not finite, or those of the SavedModel have another
            shape or differ by more than 1e-4. No folder is left.
    """
    need_tensorflow("Export to a SavedModel")
    path = pathlib.Path(path)
    _check_path(path, overwrite)
    model_interface = interface(model)
    length = model_interface.export_length(None)
    batches = verification_batches(verification_data, model_interface, length)
    warn_of_untrained_layers(model, batches[0])
    model = as_float32(model)
    expected = reference_outputs(model, batches)
    with staged(path) as partial:
        model.export(
            partial,
            format="tf_saved_model",
            verbose=False,
            input_signature=[
                {
                    name: tf.TensorSpec((None, length), "int32", name)
                    for name in model_interface.input_names
                }
            ],
        )
        reloaded = tf.saved_model.load(str(partial))
        comparison = compare(
            expected,
            lambda batch: np.asarray(reloaded.serve(batch)),
            batches,
            file=str(path),
            tolerance=FP32_TOLERANCE,
        )
        size_bytes = sum(
            file.stat().st_size for file in partial.rglob("*") if file.is_file()
        )
    return ExportReport(
        file=str(path),
        format="saved_model",
        precision="fp32",
        size_bytes=size_bytes,
        sequence_length=length,
        max_abs_difference=comparison.max_abs_difference,
        same_top_class=comparison.same_top_class,
        examples=comparison.examples,
    )


def _check_path(path, overwrite):
    if not path.exists():
        return
    if not overwrite:
        raise UsageError(
            f"Cannot export: the path exists: {path}. Remove it or pass "
            "overwrite=True."
        )
    if not is_saved_model(path):
        raise UsageError(
            "Cannot export: overwrite=True replaces SavedModels only, and "
            f"this is none: {path}. Choose another path."
        )
