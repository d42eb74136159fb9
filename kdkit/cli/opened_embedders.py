"""Opens embedders of the command line: a run, a directory or a file."""

import dataclasses
from collections.abc import Callable

from kdkit import export, models
from kdkit.cli.models import OWN_TOKENIZER, file_tokenizer, used_length
from kdkit.cli.verb_flags import reject_given
from kdkit.errors import UsageError
from kdkit.export import metadata
from kdkit.taps.names import SENTENCE_EMBEDDING
from kdkit.tasks.embeddings import embed_and_count


@dataclasses.dataclass(frozen=True)
class OpenedEmbedder:
    """An embedder that can be measured.

    Args:
        embed: callable from a list of texts to a float array of shape
            `(num_texts, dimensions)`, and the number of truncated texts.
        model: `keras.Model`, or `None` for an exported file.
        tokenizer: a tokenizer.
        sequence_length: int or `None`. The largest sequence length in tokens,
            `None` for a static embedder that has none.
        dimensions: int or `None`. The width of the vectors, if known.
        conventions: `kdkit.models.Conventions`.
    """

    embed: Callable
    model: object
    tokenizer: object
    sequence_length: int | None
    dimensions: int | None
    conventions: models.Conventions


def is_embedder(place) -> bool:
    """Returns whether a MODEL is an embedder, by its run and its files."""
    if place.config is not None and place.config.kind == "embedder":
        return True
    if models.find(place.path).kind == "embedder":
        return True
    return place.path.is_file() and _output_of(place.path) == SENTENCE_EMBEDDING


def _output_of(path):
    """The outputs of a file that kdkit exported, `None` for others."""
    exporter = export.exporter_of(path)
    if exporter is None:
        return None
    if exporter.name == "litert":
        return getattr(metadata.read(path), "outputs", None)
    return getattr(export.open_file(path), "outputs", None)


def open_embedder(place, options) -> OpenedEmbedder:
    """Opens the embedder at a `Place`."""
    if export.exporter_of(place.path) is not None:
        reject_given(options, ("pooling",), "for an exported file")
        file = export.open_file(place.path)
        if getattr(file, "outputs", SENTENCE_EMBEDDING) != SENTENCE_EMBEDDING:
            raise UsageError(
                f"{place.path} returns {file.outputs}. Expected the file of an "
                "embedder."
            )
        return _opened(
            file,
            file_tokenizer(place, options.tokenizer),
            used_length(options, file.sequence_length, place.length),
            models.find(options.tokenizer or place.run.path).conventions,
        )
    reject_given(options, ("tokenizer",), OWN_TOKENIZER)
    loaded = models.load_embedder(place.path, options.pooling)
    length = used_length(
        options,
        models.num_positions(loaded.model),
        loaded.sequence_length,
        place.length,
    )
    model, tokenizer = loaded.model, loaded.tokenizer
    return _opened(model, tokenizer, length, loaded.conventions, model)


def _opened(predict, tokenizer, length, conventions, model=None):
    def embed(texts):
        return embed_and_count(predict, texts, tokenizer, length)

    width = None if model is None else model.output_shape[-1]
    return OpenedEmbedder(embed, model, tokenizer, length, width, conventions)
