"""The options --bundle and --strings of `kdkit export`."""

import argparse
import dataclasses
import pathlib
from collections.abc import Callable

from kdkit import export
from kdkit.io.files import folder_beside

PRECISION = "int8"  # for CPUs; needs no calibration data


def string_inputs(opened):
    """Returns the `TextInputs` for a SavedModel that takes strings."""
    return export.TextInputs(
        opened.tokenizer,
        opened.sequence_length,
        opened.task.num_texts,
        opened.task.kind.output_function,
    )


def bundle_path(place, options, directory: pathlib.Path) -> pathlib.Path:
    """Returns the path of a model's bundle, before the model is loaded."""
    if options.output is not None:
        path = pathlib.Path(options.output)
    else:
        path = directory / f"{place.label}-bundle"
    return path


def with_precision(options):
    """Returns the options with the precision of a bundle, int8 by default."""
    precision = options.precision or [PRECISION]
    return argparse.Namespace(**vars(options) | {"precision": precision})


def write_bundle(
    path: pathlib.Path,
    opened,
    split: str | None,
    precisions: dict[str, str],
    write: Callable,
    overwrite: bool,
) -> list[tuple]:
    """Writes a bundle, and prints the names of its files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with folder_beside(path) as folder:
        written = [
            write(precision, folder / name)
            for name, precision in precisions.items()
        ]
        bundle = export.to_bundle(
            [folder / name for name in precisions],
            path,
            opened.task,
            opened.tokenizer,
            None if split is None else opened.read(split),
            {
                name: measured["metrics"]
                for name, (_, measured) in zip(precisions, written, strict=True)
            },
            overwrite,
        )
    names = [file.name for file in bundle.files]
    print(f"{path}: {', '.join(names)} and {export.MANIFEST}.", flush=True)
    return [
        (dataclasses.replace(report, file=str(path / name)), measured)
        for name, (report, measured) in zip(precisions, written, strict=True)
    ]
