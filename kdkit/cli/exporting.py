"""The work of `kdkit export`: files, their accuracy, a note in the run."""

import dataclasses
import os
import pathlib

import tensorflow as tf

from kdkit import data
from kdkit import export
from kdkit.cli.locating import locate
from kdkit.cli.opening import open_model
from kdkit.errors import UsageError
from kdkit.taps import select_inputs
from kdkit.training.evaluation import predict_logits

VERIFICATION_ROWS = 256
SPLIT = "dev"


def export_model(options) -> None:
    """Exports a MODEL in every wanted precision.

    Args:
        options: the parsed options of `kdkit export`.

    Raises:
        UsageError: if the model is no Keras model or a file exists.
        RunError: if a file does not do what the model does.
    """
    place = locate(options.model, options.arm)
    if place.path.suffix == ".tflite":
        raise UsageError(
            f"{place.path} is exported already. Expected a Keras model."
        )
    opened = open_model(place, options)
    directory = _output_directory(place, options)
    targets = _targets(place, options, directory)
    has_data = opened.data_dir is not None or opened.task.generate is not None
    encoded = batches = None
    if has_data and opened.tokenizer is not None:
        encoded = opened.encode(SPLIT)
        some_rows = opened.encode(SPLIT, VERIFICATION_ROWS)
        batches, _ = data.evaluation_batches(some_rows, batch_size=16)
    else:
        print(
            "No data directory is known, so the files are compared on "
            "generated rows and their accuracy is not measured. Pass "
            "--data-dir for both."
        )
    for precision, path in targets.items():
        report = _export(opened, path, precision, batches, options)
        event = dataclasses.asdict(report)
        event["metrics"] = _metrics(opened, path, encoded, options)
        _print(event)
        if place.run is not None:
            event["file"] = os.path.relpath(path.resolve(), place.run.path)
            place.run.log("export", arm=place.arm, **event)


def _output_directory(place, options):
    if options.output is not None:
        return pathlib.Path(options.output)
    return (place.run.path if place.run else pathlib.Path()) / "exports"


def _targets(place, options, directory):
    """Path by precision; refuses existing ones before any work."""
    if options.format == "saved_model":
        targets = {"fp32": directory / f"{place.label}-saved_model"}
    else:
        targets = {
            precision: directory / f"{place.label}-{precision}.tflite"
            for precision in options.precision
        }
    existing = [str(path) for path in targets.values() if path.exists()]
    if existing and not options.overwrite:
        raise UsageError(
            f"Already there: {', '.join(existing)}. Pass --overwrite to "
            "replace, or --output for another directory."
        )
    directory.mkdir(parents=True, exist_ok=True)
    return targets


def _export(opened, path, precision, batches, options):
    if options.format == "saved_model":
        return export.to_saved_model(
            opened.model,
            path,
            verification_data=batches,
            overwrite=options.overwrite,
        )
    return export.to_litert(
        opened.model,
        path,
        precision=precision,
        sequence_length=(
            None if options.dynamic_length else opened.sequence_length
        ),
        verification_data=batches,
        overwrite=options.overwrite,
    )


def _metrics(opened, path, encoded, options):
    """The metrics of an exported file on dev, or `None` without data."""
    if encoded is None:
        return None
    if options.format == "litert":
        predict = export.LiteRTModel(path)
    else:
        loaded = tf.saved_model.load(str(path))  # `serve` does not hold it

        def predict(batch):
            return loaded.serve(select_inputs(opened.model, batch))

    logits = predict_logits(predict, encoded)
    return opened.task.compute_metrics(encoded.targets, logits)


def _print(event):
    measured = "".join(
        f", {name} {value:.4f}"
        for name, value in (event["metrics"] or {}).items()
    )
    same = event["same_top_class"]
    agreement = "" if same is None else f", same class {100 * same:.1f} %"
    print(
        f"{event['file']}: {event['size_bytes'] / 1e6:.2f} MB, largest "
        f"difference {event['max_abs_difference']:.2g} on "
        f"{event['examples']} rows{agreement}{measured}",
        flush=True,
    )
