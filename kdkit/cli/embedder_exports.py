"""Embedders for `kdkit export`, with texts to verify their files on."""

import dataclasses
import itertools
import pathlib

import numpy as np

from kdkit import data, models
from kdkit.cli.mediapipe import embedder_for_mediapipe
from kdkit.cli.models import batches_of, calibration_data
from kdkit.cli.opened_embedders import open_embedder
from kdkit.cli.verb_flags import TASK, VECTORS, reject_given
from kdkit.data import Examples
from kdkit.data.retrieval import POSITIVE
from kdkit.errors import UsageError
from kdkit.io.reading import has_text
from kdkit.models.conventions import PLAIN

MAX_TEXTS = 20_000  # read, for the words of MediaPipe's vocabulary
VERIFICATION_ROWS = 256
SEED = 0
# Options that an embedder's files have no use for.
FOREIGN = (*TASK, "tokenizer", "bundle", "strings", "logits")


@dataclasses.dataclass(frozen=True)
class Embedder:
    """An embedder to export.

    Args:
        model: `keras.Model`.
        tokenizer: its tokenizer.
        sequence_length: int or `None`. The length to export with.
        text_length: int or `None`. The length to which texts are truncated.
        verification_data: as in `kdkit.export.to_litert`.
        calibration_data: as in `kdkit.export.to_litert`.
        mediapipe: `kdkit.cli.mediapipe.ForMediaPipe` or `None`.
        conventions: `kdkit.models.Conventions`.
    """

    model: object
    tokenizer: object
    sequence_length: int | None
    text_length: int | None
    verification_data: object
    calibration_data: object
    mediapipe: object
    conventions: models.Conventions


def is_exported_as_embedder(place, options) -> bool:
    """Returns whether a MODEL is exported as an embedder."""
    is_known = models.find(place.path).kind == "embedder"
    if is_known or options.pooling is not None:
        reject_given(options, FOREIGN, "for an embedder")
        return True
    reject_given(options, VECTORS, f"for {place.path}, which is no embedder")
    return False


def read_embedder(place, exporter, options) -> Embedder:
    """Loads an embedder, with texts of its run."""
    texts = _texts(place, options)
    opened = open_embedder(place, options)
    model, tokenizer = opened.model, opened.tokenizer
    wanted = options.dimensions
    if wanted is not None and not 1 <= wanted <= opened.dimensions:
        raise UsageError(
            f"Expected --dimensions from 1 to {opened.dimensions}. Received: "
            f"{wanted}."
        )
    text_length = opened.sequence_length
    length = text_length
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
    return Embedder(
        model,
        tokenizer,
        length,
        text_length,
        verification,
        calibration_data(options.precision or (), lambda: calibration),
        embedder_for_mediapipe(exporter, model, length, tokenizer, texts, ids),
        opened.conventions,
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
    corpus = data.Corpus(tuple(map(str, files)), column)
    lines = filter(has_text, corpus.texts())
    texts = [*dict.fromkeys(itertools.islice(lines, MAX_TEXTS))]
    order = np.random.default_rng(SEED).permutation(len(texts)).tolist()
    texts = [texts[row] for row in order]
    return texts[:VERIFICATION_ROWS], texts[VERIFICATION_ROWS:] or texts
