"""Exported files as callables, whatever their format."""

import pathlib

from kdkit.backends import tf
from kdkit.errors import UsageError
from kdkit.export.inputs import INPUT_NAMES
from kdkit.export.inputs import pad
from kdkit.export.inputs import to_int32
from kdkit.export.litert_model import SUFFIX
from kdkit.export.litert_model import LiteRTModel

SIGNATURE = "serving_default"


class SavedModel:
    """Runs a SavedModel as `to_saved_model` writes it.

    Called with a batch, a dict of integer arrays of shape `(batch_size,
    sequence_length)`, it returns the logits as a NumPy array. Shorter batches
    are padded where the model is made for one length.

    Args:
        path: string or path. The folder.

    Attributes:
        path: `pathlib.Path`. The folder.
        input_names: tuple of strings, the inputs that it has.
        sequence_length: int or `None`. The only length that it takes, `None`
            where it takes any.

    Raises:
        UsageError: (a `ValueError`) if there is no such model, or a batch does
            not fit.

    Example:

    ```python
    student = kdkit.export.SavedModel("student")
    logits = student({"token_ids": ids, "padding_mask": ids != 0, ...})
    ```
    """

    def __init__(self, path: str | pathlib.Path):
        self.path = pathlib.Path(path)
        if not is_saved_model(self.path):
            raise UsageError(
                "Cannot open the exported model: expected a folder with "
                f"saved_model.pb. Received: {self.path}. Write one with "
                "kdkit.export.to_saved_model."
            )
        # The signature lives no longer than what it is of.
        self._loaded = tf.saved_model.load(str(self.path))
        self._run = self._loaded.signatures.get(SIGNATURE)
        inputs = {}
        if self._run is not None:
            inputs = self._run.structured_input_signature[1]
        if "token_ids" not in inputs or set(inputs) - set(INPUT_NAMES):
            raise UsageError(
                f"Not a SavedModel as kdkit exports them: {self.path}. "
                "Expected the inputs 'token_ids' and any of "
                f"{list(INPUT_NAMES[1:])}. "
                f"Received: {sorted(inputs)}."
            )
        self.input_names = tuple(name for name in INPUT_NAMES if name in inputs)
        self.sequence_length = inputs["token_ids"].shape[1]

    def __call__(self, batch):
        batch = pad(to_int32(batch, self.input_names), self.sequence_length)
        (logits,) = self._run(
            **{name: tf.constant(array) for name, array in batch.items()}
        ).values()
        return logits.numpy()


def is_saved_model(path: pathlib.Path) -> bool:
    """Whether a path is the folder of a SavedModel."""
    return (path / "saved_model.pb").is_file()


def open_file(path: str | pathlib.Path) -> LiteRTModel | SavedModel:
    """Opens an exported model of either format.

    Args:
        path: string or path. A `.tflite` file or the folder of a SavedModel.

    Returns:
        A `LiteRTModel` or a `SavedModel`, callables from a batch to logits.

    Raises:
        UsageError: (a `ValueError`) if it is neither.
    """
    path = pathlib.Path(path)
    if path.suffix == SUFFIX:
        return LiteRTModel(path)
    if is_saved_model(path):
        return SavedModel(path)
    raise UsageError(
        f"Not an exported model. Expected a {SUFFIX} file or the folder of a "
        f"SavedModel. Received: {path}. Write one with kdkit export."
    )
