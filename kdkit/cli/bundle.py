"""The options --bundle and --strings of `kdkit export`."""

import contextlib
import copy
import dataclasses
import pathlib
from collections.abc import Callable

from kdkit import export, models
from kdkit.errors import RunError, UsageError, all_mistakes
from kdkit.io.files import folder_beside

PRECISION = "int8"  # for CPUs; needs no calibration data


def require_fitting_options(options) -> None:
    """Raises one error for all options that exclude each other."""
    with all_mistakes() as check:
        with check():
            if options.strings and options.format != "saved_model":
                raise UsageError(
                    "--strings adds the tokenizer to a SavedModel. Expected "
                    "--format saved_model. Received: --format "
                    f"{options.format}. Remove --strings, or see --bundle for "
                    "LiteRT."
                )
        with check():
            if options.logits and options.format != "litert":
                raise UsageError(
                    "--logits applies to LiteRT files; other formats return "
                    "logits, and the signature `strings` scores. Received: "
                    f"--format {options.format}. Remove --logits."
                )
        with check():
            if options.bundle and options.format != "litert":
                raise UsageError(
                    "--bundle contains LiteRT files. Expected --format litert. "
                    f"Received: --format {options.format}. Remove one of them."
                )
        with check():
            if options.bundle and options.dynamic_length:
                raise UsageError(
                    "--bundle contains files of one length. Received: "
                    "--dynamic-length. Remove one of them."
                )


def string_inputs(opened):
    """Returns the `TextInputs` for a SavedModel that takes strings."""
    if opened is None or opened.task.head.kind != "sequence":
        raise UsageError(
            "--strings needs a classifier or a regression of texts or pairs. "
            "Received: a model of another kind. Remove --strings."
        )
    _require_tokenizer(opened, "--strings")
    return export.TextInputs(
        opened.tokenizer,
        opened.sequence_length,
        opened.task.num_texts,
        opened.task.kind.output_function,
    )


def _require_tokenizer(opened, flag):
    if opened.tokenizer is None:
        raise UsageError(
            f"{flag} needs the model's tokenizer, which its file does not "
            "contain. Pass --tokenizer MODEL, a run or preset directory."
        )


def bundle_path(place, options, directory: pathlib.Path) -> pathlib.Path:
    """Returns the path of a model's bundle, before the model is loaded."""
    for has_one in (models.has_decoder, models.has_encoder_decoder):
        if has_one(place.path):
            raise UsageError(
                "--bundle needs a classifier or a regression of texts or "
                f"pairs. Received: {place.path}, a decoder or an "
                "encoder-decoder. Export it without --bundle."
            )
    if options.output is not None:
        path = pathlib.Path(options.output)
    else:
        path = directory / f"{place.label}-bundle"
    export.require_bundle_path(path, options.overwrite)
    return path


def with_precision(options):
    """Returns the options with the precision of a bundle, int8 by default."""
    options = copy.copy(options)
    options.precision = options.precision or [PRECISION]
    return options


@contextlib.contextmanager
def _final_name(folder, path):
    """Errors about files in a temporary folder name the final one."""
    try:
        yield
    except (UsageError, RunError) as error:
        text = str(error).replace(str(folder), str(path))
        raise type(error)(text) from error


def write_bundle(
    path: pathlib.Path,
    opened,
    split: str | None,
    precisions: dict[str, str],
    write: Callable,
    overwrite: bool,
) -> list[tuple]:
    """Writes a bundle, and prints the names of its files."""
    export.require_bundle_task(opened.task)
    _require_tokenizer(opened, "--bundle")
    path.parent.mkdir(parents=True, exist_ok=True)
    with folder_beside(path) as folder, _final_name(folder, path):
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
