"""Reads the MODEL of `kdkit export`, with data to verify and measure files."""

import dataclasses

from kdkit import models
from kdkit.cli import mediapipe
from kdkit.cli.embedder_exports import (
    FOREIGN,
    is_exported_as_embedder,
    read_embedder,
)
from kdkit.cli.models import (
    Opened,
    batches_of,
    calibration_data,
    open_model,
)
from kdkit.cli.text_exports import read_decoder, read_encoder_decoder
from kdkit.cli.verb_flags import reject_given
from kdkit.export.quantization import CALIBRATION_ROWS
from kdkit.models.heads import untrained_head

VERIFICATION_ROWS = 256


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """A model, with the data for verifying and measuring its files.

    Args:
        model: `keras.Model`.
        sequence_length: int or `None`. The length to export with.
        verification_data: as in `kdkit.export.to_litert`.
        calibration_data: as in `kdkit.export.to_litert`.
        opened: `Opened` for a model of a task, otherwise `None`.
        encoded: encoded examples to measure files on, or `None`.
        noted: dict. The task and the split that the metrics are from.
        mediapipe: `kdkit.cli.mediapipe.ForMediaPipe` for a LiteRT file,
            otherwise `None`.
        tokenizer: the tokenizer of a language model or an embedder,
            or `None`.
        conventions: `kdkit.models.Conventions` of an embedder, or `None`.
    """

    model: object
    sequence_length: int | None
    verification_data: object = None
    opened: Opened | None = None
    encoded: object = None
    noted: dict = dataclasses.field(default_factory=dict)
    mediapipe: object = None
    tokenizer: object = None
    calibration_data: object = None
    conventions: object = None


def read_model(place, exporter, options) -> ExportedModel:
    """Loads the model, after rejecting options that its kind cannot use."""
    if is_exported_as_embedder(place, options):
        found = read_embedder(place, exporter, options)
        return ExportedModel(
            found.model,
            found.sequence_length,
            found.verification_data,
            mediapipe=found.mediapipe,
            tokenizer=found.tokenizer,
            calibration_data=found.calibration_data,
            conventions=found.conventions,
        )
    kind = models.find(place.path).kind
    for name, read in (
        ("decoder", read_decoder),
        ("encoder_decoder", read_encoder_decoder),
    ):
        if name == kind:
            names = ("dynamic_length", *FOREIGN)
            reject_given(options, names, f"for {place.path}")
            text = read(place, exporter, options)
            return ExportedModel(
                text.model,
                text.sequence_length,
                text.verification_data,
                mediapipe=mediapipe.for_mediapipe(exporter, text.model, None),
                tokenizer=text.tokenizer,
            )
    return _read_classifier(place, exporter, options)


def _read_classifier(place, exporter, options):
    opened = open_model(place, options)
    noted, encoded, batches, split = {}, None, None, None
    if opened.has_data and opened.tokenizer is not None:
        split = _split(place, opened)
        noted = {"task": opened.task.name, "split": split}
        encoded = opened.encode(split)
        batches = batches_of(opened.encode(split, VERIFICATION_ROWS))
    else:
        print(
            "The data directory is unknown, so files are compared on "
            "generated examples and their metrics are not measured. Pass "
            "--data-dir."
        )
    _warn_of_untrained_head(opened)
    has_fixed_length = (
        exporter.prefers_fixed_length and not options.dynamic_length
    )
    length = opened.sequence_length if has_fixed_length else None

    def some_training_rows():
        if encoded is None:
            return None
        return batches_of(opened.encode("train", CALIBRATION_ROWS))

    calibration = calibration_data(options.precision or (), some_training_rows)
    contents = mediapipe.for_mediapipe(
        exporter, opened.model, length, opened, split, encoded
    )
    return ExportedModel(
        opened.model,
        length,
        batches,
        opened,
        encoded,
        noted,
        mediapipe=contents,
        calibration_data=calibration,
    )


def _warn_of_untrained_head(opened):
    """Warns about a head that was never trained, if its bias shows it."""
    layers = untrained_head(opened.model)
    if layers and opened.task.head.kind != "multiple_choice":
        print(
            f"The head was never trained ({', '.join(layers)}), so its "
            "predictions are random. Train a stage whose objectives or "
            "labels reach the "
            "logits.",
            flush=True,
        )


def _split(place, opened):
    """The split that chose the best epoch in the model's run."""
    of_run = place.task_data
    is_of_run = of_run is not None and of_run.task == opened.task.name
    return of_run.dev_split if is_of_run else "dev"
