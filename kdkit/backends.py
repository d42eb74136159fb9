"""The backend that Keras runs on, and packages that few parts need.

What computes is written for every backend. Batches in `tf.data`, exported files
and the runs of the command line are TensorFlow's. Their modules take `tf` from
here, which imports it when a name of it is first used.
"""

import importlib
import sys

import keras

from kdkit.errors import UsageError


class LateModule:
    """A module that is imported when a name of it is first used.

    Args:
        name: string. Its full name.
        packages: string. What `pip install` needs to bring it.
    """

    def __init__(self, name: str, packages: str):
        self._name = name
        self._packages = packages

    def __getattr__(self, attribute):
        if attribute.startswith("__"):  # asked for by inspection, not by us
            raise AttributeError(attribute)
        try:
            module = importlib.import_module(self._name)
        except ImportError as error:
            raise UsageError(
                f"{self._name}.{attribute} is needed here, and {self._name} "
                f"cannot be imported: {error}. Expected it beside Keras on "
                f"{keras.config.backend()!r}. Run pip install "
                f"{self._packages}."
            ) from error
        return getattr(module, attribute)


tf = LateModule("tensorflow", "tensorflow tensorflow-text")
tf_text = LateModule("tensorflow_text", "tensorflow tensorflow-text")


def keras_is_loaded() -> bool:
    """Whether Keras itself was imported; the command line does so late."""
    return "keras.src" in sys.modules


def on_tensorflow() -> bool:
    """Whether Keras runs on TensorFlow."""
    return keras.config.backend() == "tensorflow"


def need_tensorflow(what: str) -> None:
    """Refuses what works on Keras' TensorFlow backend alone.

    Args:
        what: string. What was asked for.

    Raises:
        UsageError: (a `ValueError`) on another backend.
    """
    if not on_tensorflow():
        raise UsageError(
            f"{what} needs the TensorFlow backend of Keras. Expected "
            "KERAS_BACKEND=tensorflow, and the packages tensorflow and "
            f"tensorflow-text. Received: {keras.config.backend()!r}. Save the "
            "model with model.save(...), and load it in a program on that "
            "backend: the files are the same."
        )
