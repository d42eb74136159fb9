"""Less on stderr: TensorFlow's notices, and where warnings come from."""

import contextlib
import importlib.util
import os
import sys
import tempfile
import warnings
from collections.abc import Callable

from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.errors import printable


def import_tensorflow(prepare: Callable[[], None]) -> None:
    """Imports TensorFlow and wakes its devices, with stderr put aside.

    Its C++ parts write notices (no CUDA driver, oneDNN is on) to the file
    descriptor before any log level applies. If the import fails, what was
    written is shown.

    Args:
        prepare: callable. What is done before the devices wake.

    Raises:
        UsageError: if Keras is to run on another backend, or TensorFlow is not
            installed.
    """
    backend = os.environ["KERAS_BACKEND"]
    if backend != "tensorflow":
        raise UsageError(
            "The command line runs on Keras' TensorFlow backend. Expected "
            f"KERAS_BACKEND=tensorflow. Received: {backend!r}. On other "
            "backends use kdkit.Distiller, or kdkit.recipes.run_on_arrays."
        )
    if importlib.util.find_spec("tensorflow") is None:
        raise UsageError(
            "The command line needs TensorFlow, which is not installed. Run "
            "pip install tensorflow tensorflow-text."
        )
    with tempfile.TemporaryFile() as aside:
        try:
            with _stderr_to(aside):
                import tensorflow

                prepare()
                tensorflow.zeros(())
        except (UsageError, RunError):
            raise
        except BaseException:
            aside.seek(0)
            sys.stderr.write(aside.read().decode(errors="replace"))
            raise


@contextlib.contextmanager
def one_line_warnings(verb: str):
    """Prints kdkit's warnings without the place in the code that gave them.

    Args:
        verb: string, to begin the line with.
    """
    before = warnings.formatwarning

    def formatted(message, category, *args, **kwargs):
        if category is UserWarning:
            return f"kdkit {verb}: warning: {printable(str(message))}\n"
        return before(message, category, *args, **kwargs)

    warnings.formatwarning = formatted
    try:
        yield
    finally:
        warnings.formatwarning = before


@contextlib.contextmanager
def _stderr_to(file):
    """Points file descriptor 2 at a file for a while."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
