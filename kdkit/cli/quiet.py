"""Importing TensorFlow without its notices about this machine."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable

from kdkit.errors import RunError
from kdkit.errors import UsageError


def import_tensorflow(prepare: Callable[[], None]) -> None:
    """Imports TensorFlow and wakes its devices, with stderr put aside.

    Its C++ parts write notices (no CUDA driver, oneDNN is on) to the file
    descriptor before any log level applies. If the import fails, what was
    written is shown.

    Args:
        prepare: callable. What is done before the devices wake.
    """
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
