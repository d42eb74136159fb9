"""TensorFlow for a verb: loaded without its notices, on the chosen devices."""

import contextlib
import importlib
import json
import logging
import os
import pathlib
import sys
import tempfile

from kdkit.errors import UsageError

NVIDIA = pathlib.Path("/dev/nvidiactl")  # exists where the driver is loaded


def require_backend() -> None:
    """Requires that Keras will run on TensorFlow, without importing either."""
    backend = os.environ["KERAS_BACKEND"]
    if backend != "tensorflow":
        raise UsageError(
            "The command line runs on Keras' TensorFlow backend, "
            f"KERAS_BACKEND=tensorflow. Received: {backend!r}. On other "
            "backends use kdkit.Distiller."
        )


def load_tensorflow() -> None:
    """Imports TensorFlow, which takes seconds, without its notices."""
    if "tensorflow" in sys.modules:
        return
    print("kdkit: loading TensorFlow.", file=sys.stderr, flush=True)
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1"):  # asked for
        importlib.import_module("tensorflow")
        return
    with tempfile.TemporaryFile() as aside:
        try:
            with _stderr_to(aside):
                tensorflow = importlib.import_module("tensorflow")
        except BaseException:
            aside.seek(0)
            print(aside.read().decode(errors="replace"), file=sys.stderr)
            raise
    tensorflow.get_logger().setLevel("ERROR")
    importlib.import_module("absl.logging").set_verbosity("error")
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    is_wanted = os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1")
    found = tensorflow.config.list_physical_devices("GPU")
    if NVIDIA.exists() and is_wanted and not found:
        print(
            "TensorFlow does not use this machine's GPU. Set "
            "TF_CPP_MIN_LOG_LEVEL=0 to see why.",
            file=sys.stderr,
        )


@contextlib.contextmanager
def _stderr_to(file):
    """Points file descriptor 2 at a file for a while."""
    if sys.stderr is None:  # closed
        yield
        return
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def choose_devices(strategy: str | None, number: int | None, source) -> None:
    """Splits or chooses the devices of a run.

    Args:
        strategy: string or `None`. The run's strategy.
        number: int or `None`. How many devices, as asked for.
        source: string or `None`. The run's config, if it had been run before.
    """
    if strategy is None and number is None:
        return
    if strategy is None:
        raise UsageError("--devices needs --strategy. Received: none.")
    file = pathlib.Path(source or "", "config.json")
    file = file if file.is_file() else pathlib.Path(source or "")
    if number is None and strategy == "mirrored" and file.suffix == ".json":
        number = json.loads(file.read_text("utf-8")).get("replicas")
        if number is not None:
            print(f"{source} is from a run on {number} devices, like this run.")
    load_tensorflow()
    distribution = importlib.import_module("kdkit.training.distribution")
    if number is not None:
        distribution.use_devices(number)
    if strategy == "multi_worker":  # before TensorFlow computes anything
        distribution.open_distribution(strategy)
