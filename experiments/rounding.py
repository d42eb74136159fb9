"""Compares files with the Keras model that rounds, and the one in float32.

Calibrates MODEL, a run or preset of a classifier, on training examples, exports
it in each precision to a temporary folder, and prints the differences of its
logits on dev from both. docs/quantization_aware.md contains the result.

example:
  python experiments/rounding.py runs/pkd --data-dir glue
"""

import dataclasses
import pathlib
import sys
import tempfile

import numpy as np
from rich.console import Console
from rich.table import Table

from kdkit import data
from kdkit import export
from kdkit.cli.groups import ModelChoiceOptions
from kdkit.cli.groups import TaskOptions
from kdkit.cli.main import run_script
from kdkit.cli.models import calibration_data
from kdkit.cli.models import locate
from kdkit.cli.models import open_model
from kdkit.cli.parser import Model
from kdkit.cli.parser import option
from kdkit.quantization import PRECISIONS
from kdkit.quantization import FakeQuantization
from kdkit.quantization import active_quantization
from kdkit.quantization import full_precision


@dataclasses.dataclass
class Options(ModelChoiceOptions, TaskOptions):
    """rounding"""

    model: Model | None = option(
        "a run or preset directory", positional=True, required=True
    )
    precisions: list[str] = option(
        f"the files. Defaults to {' '.join(PRECISIONS)}.",
        default=[*PRECISIONS],
        choices=PRECISIONS,
    )


def run(options) -> None:
    """Prints a table of both differences for each precision.

    Args:
        options: the parsed options.

    Raises:
        UsageError: if the model, its task or its data is unknown.
    """
    opened = open_model(locate(options.model, options.arm), options)
    model = opened.model
    calibration = calibration_data(options.precisions, opened)
    dev = data.BatchStream(opened.encode("dev"), data.Buckets(16)).evaluation()
    dev = [batch[0] if isinstance(batch, tuple) else batch for batch in dev]
    table = Table("file", "compared with", "mean", "median", "largest", "class")
    for precision in options.precisions:
        active = active_quantization(model)
        if active is not None and active.precision != precision:
            active.remove()  # the run's own ranges are for its own precision
        if active_quantization(model) is None:
            FakeQuantization(precision, calibration).apply(model)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "model.tflite")
            export.to_litert(
                model,
                path,
                precision,
                sequence_length=opened.sequence_length,
                calibration_data=calibration,
            )
            found = _logits(export.open_file(path), dev)
        rounded = _logits(model, dev)
        with full_precision(model):
            exact = _logits(model, dev)
        for name, other in (("rounding", rounded), ("float32", exact)):
            away = np.abs(found - other)
            same = (found.argmax(-1) == other.argmax(-1)).mean()
            numbers = [np.mean(away), np.median(away), np.max(away)]
            table.add_row(
                precision,
                name,
                *(f"{number:.4f}" for number in numbers),
                f"{same:.1%}",
            )
    Console().print(table)


def _logits(model, batches):
    return np.concatenate([np.array(model(batch)) for batch in batches])


if __name__ == "__main__":
    sys.exit(run_script(sys.modules[__name__]))
