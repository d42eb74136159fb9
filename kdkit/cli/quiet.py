"""Less on stderr: TensorFlow's notices, and where warnings come from."""

import contextlib
import importlib.util
import logging
import os
import pathlib
import sys
import tempfile
import warnings

from kdkit.cli import late
from kdkit.cli.devices import prepare
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.errors import printable

NVIDIA = pathlib.Path("/dev/nvidiactl")  # there where its driver is


def is_asked() -> bool:
    """Whether the user asked for notices: `TF_CPP_MIN_LOG_LEVEL` is 0 or 1."""
    return os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1")


def silence_loggers() -> None:
    """Lets Python's loggers of libraries print errors alone.

    Those of TensorFlow Datasets warn of each missing folder and each try.
    """
    if is_asked():
        return
    with contextlib.suppress(ImportError):
        import absl.logging

        absl.logging.set_verbosity(absl.logging.ERROR)
    logging.getLogger("urllib3").setLevel(logging.ERROR)


def check_backend() -> None:
    """Checks that Keras will run on TensorFlow, without importing either.

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


def import_tensorflow(name: str, options) -> None:
    """Imports TensorFlow and wakes its devices, without its notices.

    Its C++ parts write notices (no CUDA driver, oneDNN is on) to the file
    descriptor before any log level applies. If the import fails, what was
    written is shown. `TF_CPP_MIN_LOG_LEVEL=0` shows all of it.

    Args:
        name: string. The command, such as `"kdkit distill"`.
        options: its parsed options, which may choose devices.

    Raises:
        UsageError: if these devices are not there.
    """
    if not late.is_loaded("tensorflow"):
        what = _subject(options)
        print(
            f"{name}{what}: loading TensorFlow.",
            file=sys.stderr,
            flush=True,
        )
    if is_asked():
        _wake(options)
        return
    with tempfile.TemporaryFile() as aside:
        try:
            with _stderr_to(aside):
                _wake(options).get_logger().setLevel("ERROR")
        except (UsageError, RunError):
            raise
        except BaseException:
            aside.seek(0)
            sys.stderr.write(aside.read().decode(errors="replace"))
            raise


def _wake(options):
    """Imports TensorFlow and does what it writes a notice about, once."""
    import tensorflow

    prepare(options)
    # On a CPU without AVX-512 oneDNN has no such operation, which it reports.
    tensorflow.transpose(tensorflow.zeros((1, 2), "int64"))
    is_wanted = os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1")
    found = tensorflow.config.list_physical_devices("GPU")
    if NVIDIA.exists() and is_wanted and not found:
        print(
            "TensorFlow does not use this machine's GPU. Set "
            "TF_CPP_MIN_LOG_LEVEL=0 to see why."
        )
    return tensorflow


def _subject(options):
    """What a verb works on, and where it writes, as the options name them."""
    words = []
    for name in ("recipe", "model", "models", "files"):
        given = getattr(options, name, None)
        if given:
            words += given if isinstance(given, list) else [given]
            break
    for name, before in (("task", "on"), ("run_dir", "in"), ("output", "to")):
        given = getattr(options, name, None)
        if given is not None:
            words += [before, given]
    return printable("".join(f" {word}" for word in words))


@contextlib.contextmanager
def one_line_warnings(name: str):
    """Prints kdkit's warnings without the place in the code that gave them.

    Args:
        name: string. The command, which begins the line.
    """
    before = warnings.formatwarning

    def formatted(message, category, *args, **kwargs):
        if category is UserWarning:
            return f"{name}: warning: {printable(str(message))}\n"
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
