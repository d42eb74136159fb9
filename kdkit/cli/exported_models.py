"""Reads the MODEL of `kdkit export`, with data to verify and measure files."""

import dataclasses
import itertools
import pathlib

import numpy as np

from kdkit import data, models
from kdkit.cli import mediapipe
from kdkit.cli.models import (
    Opened,
    batches_of,
    calibration_data,
    open_model,
)
from kdkit.cli.opened_embedders import open_embedder
from kdkit.cli.verb_flags import TASK, VECTORS, reject_given, require
from kdkit.config.data import Pairs
from kdkit.data import Examples
from kdkit.data.packing import PADDING, open_packed
from kdkit.data.retrieval import POSITIVE
from kdkit.data.texts import corpus_texts
from kdkit.errors import UsageError
from kdkit.export.quantization import CALIBRATION_ROWS
from kdkit.models.conventions import PLAIN
from kdkit.models.heads import untrained_head
from kdkit.training.text import load_sentences

VERIFICATION_ROWS = 256
DECODER_ROWS = 4  # read token by token
MAX_TEXTS = 20_000  # read, for the words of MediaPipe's vocabulary
SEED = 0
# Options that an embedder's files have no use for.
NOT_OF_EMBEDDERS = (*TASK, "tokenizer", "bundle", "strings", "logits")


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


def is_exported_as_embedder(place, options) -> bool:
    """Returns whether a MODEL is exported as an embedder."""
    is_known = models.find(place.path).kind == "embedder"
    if is_known or options.pooling is not None:
        reject_given(options, NOT_OF_EMBEDDERS, "for an embedder")
        return True
    reject_given(options, VECTORS, f"for {place.path}, which is no embedder")
    return False


def read_model(place, exporter, options) -> ExportedModel:
    """Loads the model, after rejecting options that its kind cannot use."""
    if is_exported_as_embedder(place, options):
        return _read_embedder(place, exporter, options)
    if models.find(place.path).kind in ("decoder", "encoder_decoder"):
        names = ("dynamic_length", *NOT_OF_EMBEDDERS)
        reject_given(options, names, f"for {place.path}")
        return _read_language_model(place, exporter, options)
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


def _read_language_model(place, exporter, options):
    """A decoder or an encoder-decoder, with its run's held-out text."""
    loaded = models.load_language_model(place.path)
    length, verification = options.sequence_length, None
    if models.find(place.path).kind == "encoder_decoder":
        length = length or loaded.sequence_length
        if isinstance(place.corpus, Pairs):
            text = place.corpus.replace(sequence_length=length)
            verification = _held_out_pairs(text, loaded.tokenizer)
    else:
        if length is None and exporter.in_steps:
            length = models.num_positions(loaded.model)
            if length is None:  # as Llama
                require(options, "sequence_length")
        if place.run is not None:
            folder = place.run.path / "corpus" / "held_out"
            verification = _held_out(folder, length)
    return ExportedModel(
        loaded.model,
        length,
        verification,
        mediapipe=mediapipe.for_mediapipe(exporter, loaded.model, None),
        tokenizer=loaded.tokenizer,
    )


def _held_out_pairs(text, tokenizer):
    """Some of a run's held-out pairs, `None` if their files are missing."""
    try:
        found = load_sentences(text, tokenizer, is_held_out=True)
    except (OSError, UsageError) as error:
        print(f"Compared on generated pairs: {error}", flush=True)
        return None
    pairs = itertools.islice(found.contents(), DECODER_ROWS)
    # The end token of a target is never read.
    return [(source, target[:-1]) for _, source, target in pairs]


def _held_out(directory, length):
    """Some sequences of a run's held-out text, `None` if there are none."""
    rows = open_packed(directory)
    if rows is None:
        return None
    return [row[row != PADDING][:length] for row in rows.rows[:DECODER_ROWS]]


def _read_embedder(place, exporter, options):
    """An embedder, with texts of its run."""
    texts = _texts(place, options)
    opened = open_embedder(place, options)
    model, tokenizer = opened.model, opened.tokenizer
    wanted = options.dimensions
    if wanted is not None and not 1 <= wanted <= opened.dimensions:
        raise UsageError(
            f"Expected --dimensions from 1 to {opened.dimensions}. Received: "
            f"{wanted}."
        )
    length = text_length = opened.sequence_length
    if options.dynamic_length or not exporter.prefers_fixed_length:
        length = None
    encoded, ids = [None, None], None
    if texts is None:
        print(
            "The texts of the model are unknown, so files are compared on "
            "random tokens. Pass --texts FILE.",
            flush=True,
        )
    else:
        encoded = [
            data.encode(Examples((part,)), tokenizer, text_length)
            for part in texts
        ]
        ids = [ids for ids, _ in encoded[0].contents()]
    verification, calibration = map(batches_of, encoded)
    about = opened.conventions
    if about != PLAIN and "conventions" not in exporter.options:
        print(
            "Files read token ids. Put the prompt before each text, and "
            f"compare the vectors by {about.similarity}: "
            f"query {about.prompt('query')!r}, document "
            f"{about.prompt('document')!r}, others {about.prompt()!r}.",
            flush=True,
        )
    return ExportedModel(
        model,
        length,
        verification,
        mediapipe=mediapipe.of_embedder(
            exporter, model, length, tokenizer, texts, ids
        ),
        tokenizer=tokenizer,
        calibration_data=calibration_data(
            options.precision or (), lambda: calibration
        ),
        conventions=opened.conventions,
    )


def _texts(place, options):
    """Texts to compare on, and others; `None` if the files are missing."""
    files, column = options.texts, None
    if files is None:
        named = getattr(place.data, "files", ())
        column = getattr(place.data, "column", None)
        if place.has_reranker:
            column = POSITIVE
        files = [file for file in named if pathlib.Path(file).is_file()]
        if not files:
            return None
    lines = itertools.islice(corpus_texts(files, column), MAX_TEXTS)
    texts = [*dict.fromkeys(lines)]
    order = np.random.default_rng(SEED).permutation(len(texts)).tolist()
    texts = [texts[row] for row in order]
    return texts[:VERIFICATION_ROWS], texts[VERIFICATION_ROWS:] or texts
