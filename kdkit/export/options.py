"""What LiteRT files are written with: a path and a precision."""

from kdkit.backends import tf
from kdkit.errors import UsageError
from kdkit.export.litert_model import SUFFIX

PRECISIONS = ("fp32", "fp16", "int8")


def check_arguments(path, precision: str, overwrite: bool) -> None:
    """Checks where to write a file, and in which precision.

    Raises:
        UsageError: (a `ValueError`) with everything that is wrong.
    """
    problems = []
    if path.suffix != SUFFIX:
        problems.append(f"the path must end in {SUFFIX!r}, received {path}")
    if precision not in PRECISIONS:
        problems.append(
            f"precision must be one of {PRECISIONS}, received {precision!r}"
        )
    if path.is_dir():
        problems.append(f"the path is a folder, received {path}")
    elif path.exists() and not overwrite:
        problems.append(
            f"the file exists: {path}; remove it or pass overwrite=True"
        )
    if problems:
        raise UsageError(f"Cannot export: {'; '.join(problems)}.")


def converter_options(precision: str) -> dict:
    """What the converter is told, as Keras' `export` takes it."""
    # Keras would fall back on TensorFlow's operations, which the interpreter
    # of the ai-edge-litert package does not have.
    target_spec = {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}
    if precision == "fp16":
        target_spec["supported_types"] = [tf.float16]
    options = {"target_spec": target_spec}
    if precision != "fp32":
        options["optimizations"] = [tf.lite.Optimize.DEFAULT]
    return options
