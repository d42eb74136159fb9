"""The work of `kdkit export`: files, their accuracy, a note in the run."""

import dataclasses
import os
import pathlib

from kdkit import data
from kdkit import decoding
from kdkit import export
from kdkit import models
from kdkit.backends import tf
from kdkit.cli.locating import locate
from kdkit.cli.opening import open_model
from kdkit.cli.options import given_flags
from kdkit.cli.writers import text_of_run
from kdkit.disk import writing
from kdkit.errors import UsageError
from kdkit.taps import select_inputs
from kdkit.training import seq2seq_material
from kdkit.training.evaluation import predict_logits
from kdkit.training.sentence_settings import PairSettings

VERIFICATION_ROWS = 256
DECODER_ROWS = 4  # read token by token


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
    for has_one, export_one in (
        (models.has_decoder, _export_decoder),
        (models.has_encoder_decoder, _export_encoder_decoder),
    ):
        if has_one(place.path):
            _reject_what_is_for_classifiers(options)
            export_one(place, options)
            return
    opened = open_model(place, options)
    targets = _targets(place, options)
    has_data = opened.data_dir is not None or opened.task.generate is not None
    on, encoded, batches = {}, None, None
    if has_data and opened.tokenizer is not None:
        split = _split(place, opened)
        on = {"task": opened.task.name, "split": split}
        encoded = opened.encode(split)
        some_rows = opened.encode(split, VERIFICATION_ROWS)
        batches, _ = data.evaluation_batches(some_rows, batch_size=16)
    else:
        print(
            "No data directory is known, so the files are compared on "
            "generated rows and their accuracy is not measured. Pass "
            "--data-dir for both."
        )
    for precision, path in targets.items():
        report = _export(opened, path, precision, batches, options)
        metrics = _metrics(opened, path, encoded, options)
        _note(place, report, metrics, **on)


def _split(place, opened):
    """The split that the epochs of the model's run were chosen by."""
    is_of_run = opened.task.name == place.data_setting("task", None)
    return (is_of_run and place.data_setting("dev_split", None)) or "dev"


def _export_decoder(place, options):
    """Writes the step of a decoder, compared on what its run held out."""
    targets = _targets(place, options)
    model = models.load_language_model(place.path).model
    length = options.sequence_length
    if length is None:
        length = model.backbone.max_sequence_length
    texts = None
    if place.run is not None:
        texts = _held_out(place.run.path / "corpus" / "held_out", length)
    for precision, path in targets.items():
        report = decoding.to_litert(
            model,
            path,
            precision=precision,
            sequence_length=length,
            verification_texts=texts,
            overwrite=options.overwrite,
        )
        _note(place, report, None)


def _export_encoder_decoder(place, options):
    """Writes encoder and step, compared on pairs that its run held out."""
    targets = _targets(place, options)
    loaded = models.load_language_model(place.path)
    text = text_of_run(place)
    length = options.sequence_length
    if length is None:
        length = loaded.sequence_length
    pairs = None
    if isinstance(text, PairSettings):
        pairs = _held_out_pairs(text, loaded.tokenizer, length)
    for precision, path in targets.items():
        report = decoding.seq2seq_to_litert(
            loaded.model,
            path,
            precision=precision,
            source_length=length,
            sequence_length=length,
            verification_pairs=pairs,
            overwrite=options.overwrite,
        )
        _note(place, report, None)


def _held_out_pairs(text, tokenizer, length):
    """Some pairs that a run held out, `None` if its files are gone."""
    try:
        found = seq2seq_material.load_held_out(
            dataclasses.replace(text, sequence_length=length), tokenizer
        )
    except UsageError as error:
        print(f"Compared on generated pairs: {error}", flush=True)
        return None
    return found.rows(DECODER_ROWS)


def _reject_what_is_for_classifiers(options):
    clashing = given_flags(options, ("task", "data_dir", "tokenizer"))
    if options.format != "litert":
        clashing.append(f"--format {options.format}")
    if options.dynamic_length:
        clashing.append("--dynamic-length")
    if clashing:
        raise UsageError(
            f"{', '.join(clashing)}: a decoder, or an encoder-decoder, is "
            "exported as one step of a text, to LiteRT, with room for "
            "--sequence-length tokens. Leave it out."
        )


def _held_out(directory, length):
    """Some rows of the text that a run held out, `None` without any."""
    rows = data.open_packed(directory)
    if rows is None:
        return None
    return [
        row[row != data.PADDING][:length] for row in rows.rows[:DECODER_ROWS]
    ]


def _note(place, report, metrics, **on):
    """Prints what came of a file, and notes it in the run.

    `on` is the task and the split that the metrics are of.
    """
    event = {**dataclasses.asdict(report), "metrics": metrics, **on}
    _print(event)
    if place.run is not None:
        path = pathlib.Path(report.file).resolve()
        event["file"] = os.path.relpath(path, place.run.path)
        place.run.log("export", arm=place.arm, **event)


def _output_directory(place, options):
    if options.output is not None:
        return pathlib.Path(options.output)
    return (place.run.path if place.run else pathlib.Path()) / "exports"


def _targets(place, options):
    """Path by precision; refuses existing ones before any work."""
    directory = _output_directory(place, options)
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
    with writing(directory):
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
    """The metrics of an exported file on some rows, `None` without them."""
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
    if measured:
        measured += f" on {event['split']}"
    same = event["same_top_class"]
    agreement = "" if same is None else f", same class {100 * same:.1f} %"
    print(
        f"{event['file']}: {event['size_bytes'] / 1e6:.2f} MB, largest "
        f"difference {event['max_abs_difference']:.2g} on "
        f"{event['examples']} rows{agreement}{measured}",
        flush=True,
    )
