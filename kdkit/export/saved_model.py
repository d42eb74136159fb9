"""Exports Keras models to TensorFlow SavedModels, and runs them."""

import contextlib
import dataclasses
import pathlib

import keras
import numpy as np

from kdkit.errors import RunError, UsageError
from kdkit.export import metadata
from kdkit.export.exporters import Exporter, get_exporter, register_exporter
from kdkit.export.inputs import (
    DECODER,
    ENCODER,
    TENSORS,
    BatchFile,
)
from kdkit.export.texts import TextInputs, difficult_examples
from kdkit.export.verification import FP32_TOLERANCE
from kdkit.exported import ExportReport
from kdkit.late import tf, tf_text

SIGNATURE = "serving_default"
STRINGS = "strings"  # the signature that reads texts


@register_exporter("saved_model")
class SavedModels(Exporter):
    """The SavedModel format: a directory that TensorFlow serves."""

    title = "SavedModel"
    kinds = (ENCODER, DECODER, TENSORS)
    options = ("strings",)
    takes_threads = False  # TensorFlow sets them for the whole process

    def owns(self, path):
        return (path / "saved_model.pb").is_file()

    def file_name(self, label, precision):
        return f"{label}-saved_model"

    def prepare(self, source, precision, outputs, strings=None):
        if strings is not None and outputs not in (None, metadata.OUTPUTS[0]):
            raise UsageError(
                f"outputs={outputs!r} and strings, which convert the outputs "
                "again. Pass TextInputs(outputs=...)."
            )
        source = dataclasses.replace(source, extras=strings)
        return super().prepare(source, precision, outputs)

    def write(self, source, path, precision):
        archive = keras.export.ExportArchive()
        archive.track_and_add_endpoint(
            "serve", source.model, source.signature()
        )
        strings = source.extras
        if strings is not None:
            archive.add_endpoint(
                STRINGS,
                strings.scores(
                    source.model, source.input_names, source.sequence_length
                ),
                strings.signature(),
            )
        archive.write_out(path, verbose=False)

    def annotate(self, path, entry):
        (path / metadata.ENTRY).write_text(metadata.to_json(entry))

    def verify(self, source, partial, path):
        """Compares the scores of difficult texts with the Keras model's."""
        if source.extras is None:
            return
        examples = difficult_examples(source.extras.num_texts)
        batch = source.extras.encoded(examples)
        expected = source.extras.activate(
            source.model({name: batch[name] for name in source.input_names})
        )
        loaded = tf.saved_model.load(str(partial))
        columns = zip(source.extras.names, examples.texts, strict=True)
        received = loaded.signatures[STRINGS](
            **{name: tf.constant(column) for name, column in columns}
        )["scores"]
        difference = np.abs(np.asarray(expected) - received.numpy()).max()
        if not difference <= FP32_TOLERANCE:
            raise RunError(
                f"{path} was not written: its scores of strings differ from "
                f"the Keras model's by {difference:.3g}. Expected at most "
                f"{FP32_TOLERANCE:g}."
            )

    def limit_threads(self, threads):
        wanted = (threads, 1)
        try:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        except RuntimeError:  # TensorFlow has run an operation
            found = (
                tf.config.threading.get_intra_op_parallelism_threads(),
                tf.config.threading.get_inter_op_parallelism_threads(),
            )
            if found != wanted:
                raise UsageError(
                    f"TensorFlow runs on {found[0]} threads already, not on "
                    f"{threads}. Time a SavedModel in a new process."
                ) from None

    def open(self, path, threads=1):
        return SavedModel(path)


class SavedModel(BatchFile):
    """Runs a SavedModel from `to_saved_model`.

    Called with a batch, a dict of integer arrays of shape `(batch_size,
    sequence_length)`, it returns the logits as a NumPy array. Shorter batches
    are padded if the model accepts only one length.

    Args:
        path: string or path. The directory.

    Attributes:
        path: `pathlib.Path`. The directory.
        input_names: tuple of strings, the inputs that it has.
        sequence_length: int or `None`. The only length that it accepts, `None`
            for any length.

    Example:

    ```python
    student = kdkit.export.SavedModel("student")
    logits = student({"token_ids": ids, "padding_mask": ids != 0, ...})
    ```
    """

    def __init__(self, path: str | pathlib.Path):
        self.path = pathlib.Path(path)
        entry = self.path / metadata.ENTRY
        if entry.is_file():
            self.metadata = metadata.parse(entry.read_bytes())
        # TensorFlow needs the operations of a tokenizer in the SavedModel. One
        # without a tokenizer also loads where there is no tensorflow-text.
        with contextlib.suppress(UsageError):
            getattr(tf_text, "FastWordpieceTokenizer", None)
        # The signature is deleted with the loaded model.
        self._loaded = tf.saved_model.load(str(self.path))
        self._signature = self._loaded.signatures[SIGNATURE]
        inputs = self._signature.structured_input_signature[1]
        first = next(iter(inputs.values()))
        self.read_sizes(inputs, first.shape, first.dtype == tf.float32)

    def set_inputs(self, batch):
        self._inputs = {
            name: tf.constant(batch[name]) for name in self.input_names
        }

    def invoke(self):
        (self._logits,) = self._signature(**self._inputs).values()

    def output(self):
        return self._logits.numpy()


def to_saved_model(
    model,
    path: str | pathlib.Path,
    verification_data=None,
    overwrite: bool = False,
    strings: TextInputs | None = None,
    dimensions: int | None = None,
) -> ExportReport:
    """Writes a model as a SavedModel, checked against the Keras model.

    The endpoint `serve` takes a dict of the int32 tensors `token_ids`,
    `segment_ids` and `padding_mask` (those that the model has), of any batch
    size and any sequence length, and returns the logits:

    ```python
    student = tf.saved_model.load("student")
    logits = student.serve({"token_ids": ids, ...})
    ```

    With `strings`, the SavedModel also has an endpoint `strings`, which
    contains the tokenizer: it takes string tensors of shape `(batch_size,)` and
    returns a dict with `scores` of shape `(batch_size, num_classes)`. The
    program that loads it needs the packages tensorflow and tensorflow-text.

    Models in mixed or half precision are exported as in `to_litert`.

    Args:
        model: as in `to_litert`, but not an encoder-decoder. A decoder becomes
            a SavedModel that reads whole sequences.
        path: string or path. The directory to write.
        verification_data: batches, as in `to_litert`.
        overwrite: bool. Whether to replace a SavedModel. Defaults to `False`.
        strings: `kdkit.export.TextInputs` or `None`. The tokenizer for the
            endpoint `strings`. For classifiers of whole texts and pairs, and
            regression. Defaults to `None`, no such endpoint.
        dimensions: int or `None`, as in `to_litert`. Defaults to `None`.

    Returns:
        An `ExportReport` with the differences from the Keras model.

    Warns:
        UserWarning: as in `to_litert`.

    Raises:
        UsageError: (a `ValueError`) as in `to_litert`. Nothing is written.
        RunError: (a `RuntimeError`) if the outputs of the model or the
            SavedModel are not finite, or if the SavedModel's outputs have
            another shape or differ by more than 1e-4. No directory remains.

    Example:

    ```python
    kdkit.export.to_saved_model(
        student,
        "student",
        strings=kdkit.export.TextInputs(tokenizer, 64, outputs="softmax"),
    )
    ```

    In a program without kdkit:

    ```python
    import tensorflow as tf
    import tensorflow_text

    student = tf.saved_model.load("student")
    scores = student.strings(tf.constant(["a fine film"]))["scores"]
    ```
    """
    return get_exporter("saved_model").export(
        model,
        path,
        verification_data=verification_data,
        overwrite=overwrite,
        dimensions=dimensions,
        strings=strings,
    )
