"""Reads the MODEL of `kdkit export`, with data to verify and measure files."""

import dataclasses
import itertools
import pathlib

import numpy as np

from kdkit import data, models
from kdkit.cli.mediapipe import ForMediaPipe, for_mediapipe
from kdkit.cli.opened import Opened, open_embedder, open_on_task, open_place
from kdkit.cli.verb_flags import TASK, VECTORS, reject_given, require
from kdkit.config.data import Pairs
from kdkit.data import Examples
from kdkit.data.packing import PADDING, open_packed
from kdkit.data.retrieval import POSITIVE
from kdkit.data.texts import corpus_texts
from kdkit.errors import UsageError
from kdkit.export.quantization import (
    CALIBRATED,
    CALIBRATION_ROWS,
    require_calibration,
    require_precision,
)
from kdkit.models.conventions import PLAIN
from kdkit.models.heads import untrained_head
from kdkit.runs import inputs
from kdkit.training.text import load_sentences

VERIFICATION_ROWS = 256
DECODER_ROWS = 4  # read token by token
MAX_TEXTS = 20_000  # read, for the words of MediaPipe's vocabulary
SEED = 0
# Options that only files of classifiers have a use for.
OF_CLASSIFIERS = (*TASK, "tokenizer", "bundle", "strings", "logits")


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """A model, with the data for verifying and measuring its files.

    Args:
        opened: `OpenedOnTask` of a classifier, otherwise `Opened`.
        sequence_length: int or `None`. The length to export with.
        verification_data: as in `kdkit.export.to_litert`.
        calibration_data: as in `kdkit.export.to_litert`.
        encoded: encoded examples to measure files on, or `None`.
        noted: dict. The task, the split and the rows of the metrics.
        mediapipe: `ForMediaPipe` for a LiteRT file, otherwise `None`.
    """

    opened: Opened
    sequence_length: int | None
    verification_data: object = None
    calibration_data: object = None
    encoded: object = None
    noted: dict = dataclasses.field(default_factory=dict)
    mediapipe: ForMediaPipe | None = None


def read_model(place, exporter, options) -> ExportedModel:
    """Loads the model, after rejecting options that its kind cannot use."""
    kind = models.find(place.path).kind
    if kind == "embedder" or options.pooling is not None:
        reject_given(options, OF_CLASSIFIERS, "for an embedder")
        return _read_embedder(place, exporter, options)
    reject_given(options, VECTORS, f"for {place.path}, which is no embedder")
    if kind in ("decoder", "encoder_decoder"):
        names = ("dynamic_length", *OF_CLASSIFIERS)
        reject_given(options, names, f"for {place.path}")
        return _read_language_model(place, exporter, options)
    return _read_classifier(place, exporter, options)


def _read_classifier(place, exporter, options):
    opened = open_on_task(place, options)
    layers = untrained_head(opened.model)
    if layers and opened.task.head.kind != "multiple_choice":
        print(
            f"The head was never trained ({', '.join(layers)}), so its "
            "predictions are random. Train a stage whose objectives or labels "
            "reach the logits.",
            flush=True,
        )
    length = _length(opened, exporter, options)
    if not opened.has_data or opened.tokenizer is None:
        print(
            "The data directory is unknown, so files are compared on "
            "generated examples and their metrics are not measured. Pass "
            "--data-dir."
        )
        _calibration(options, lambda: None)
        found = for_mediapipe(exporter, opened, length)
        return ExportedModel(opened, length, mediapipe=found)
    split, of_run = "dev", place.task_data
    if of_run is not None and of_run.task == opened.task.name:
        split = of_run.dev_split  # which chose the best epoch
    examples = opened.read(split)
    encoded = opened.encode_rows(examples)
    calibration = _calibration(
        options,
        lambda: _batches(
            opened.encode_some(opened.read("train"), CALIBRATION_ROWS)
        ),
    )

    def training_texts():
        try:
            return list(opened.read("train").texts[0])
        except (OSError, UsageError):  # a missing file
            return ()

    def counted():
        return list(examples.texts[0]), encoded.contents()

    found = for_mediapipe(
        exporter, opened, length, training_texts, counted, split
    )
    return ExportedModel(
        opened,
        length,
        _batches(opened.encode_some(examples, VERIFICATION_ROWS)),
        calibration,
        encoded,
        {
            "task": opened.task.name,
            "split": split,
            "data_digest": inputs.rows_digest(examples),
        },
        found,
    )


def _length(opened, exporter, options):
    """The only length of the files, `None` for any."""
    is_fixed = exporter.prefers_fixed_length and not options.dynamic_length
    return opened.sequence_length if is_fixed else None


def _calibration(options, read):
    """Batches for the ranges of precisions, before any file is written."""
    precisions = options.precision or ()
    for precision in precisions:
        require_precision("encoder", precision)
    needing = CALIBRATED.keys() & {*precisions}
    if not needing:
        return None
    found = read()
    require_calibration(min(needing), found)
    return found


def _batches(rows):
    return list(data.BatchStream(rows, data.Buckets(16)).evaluation())


def _read_language_model(place, exporter, options):
    """A decoder or an encoder-decoder, with its run's held-out text."""
    opened = open_place(place, models.load_language_model)
    length, verification = options.sequence_length, None
    if models.find(place.path).kind == "encoder_decoder":
        length = length or opened.loaded.sequence_length
        if isinstance(place.corpus, Pairs):
            text = place.corpus.replace(sequence_length=length)
            verification = _held_out_pairs(text, opened.tokenizer)
    else:
        if length is None and exporter.in_steps:
            length = models.num_positions(opened.model)
            if length is None:  # as Llama
                require(options, "sequence_length")
        if place.run is not None:
            folder = place.run.path / "corpus" / "held_out"
            verification = _held_out(folder, length)
    found = for_mediapipe(exporter, opened, length)
    return ExportedModel(opened, length, verification, mediapipe=found)


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
    length = _length(opened, exporter, options)
    about = opened.loaded.conventions
    if about != PLAIN and "conventions" not in exporter.options:
        print(
            "Files read token ids. Put the prompt before each text, and "
            f"compare the vectors by {about.similarity}: "
            f"query {about.prompt('query')!r}, document "
            f"{about.prompt('document')!r}, others {about.prompt()!r}.",
            flush=True,
        )
    if texts is None:
        print(
            "The texts of the model are unknown, so files are compared on "
            "random tokens. Pass --texts FILE.",
            flush=True,
        )
        _calibration(options, lambda: None)
        found = for_mediapipe(exporter, opened, length)
        return ExportedModel(opened, length, mediapipe=found)
    prompts = itertools.cycle(about.training_prompts)
    texts = [[next(prompts) + text for text in part] for part in texts]

    def encoded(texts):
        examples = Examples((texts,))
        return data.encode(examples, opened.tokenizer, opened.sequence_length)

    compared = encoded(texts[0])
    found = for_mediapipe(
        exporter,
        opened,
        length,
        lambda: texts[1],
        lambda: (texts[0], compared.contents()),
    )
    calibration = _calibration(
        options, lambda: _batches(encoded(texts[1][:CALIBRATION_ROWS]))
    )
    return ExportedModel(
        opened, length, _batches(compared), calibration, mediapipe=found
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
