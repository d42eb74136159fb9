"""Language models for `kdkit export`, with text to verify their files on."""

import dataclasses

from kdkit import data, models
from kdkit.cli.options import require
from kdkit.cli.texts import text_of_run
from kdkit.errors import UsageError
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.text import load_sentences

DECODER_ROWS = 4  # read token by token


@dataclasses.dataclass(frozen=True)
class TextModel:
    """A language model to export.

    Args:
        model: a decoder or an encoder-decoder.
        sequence_length: int or `None`. The length to export with.
        verification_data: as in `kdkit.export.to_litert`.
        tokenizer: the model's tokenizer.
    """

    model: object
    sequence_length: int | None
    verification_data: object
    tokenizer: object


def read_decoder(place, exporter, options) -> TextModel:
    """Loads a decoder, with its run's held-out text."""
    loaded = models.load_language_model(place.path)
    model = loaded.model
    length = options.sequence_length
    if length is None and exporter.in_steps:
        length = models.num_positions(model)
        if length is None:  # as Llama
            require(options, "sequence_length")
    texts = None
    if place.run is not None:
        texts = _held_out(place.run.path / "corpus" / "held_out", length)
    return TextModel(model, length, texts, loaded.tokenizer)


def read_encoder_decoder(place, exporter, options) -> TextModel:
    """Loads an encoder-decoder, with its run's held-out pairs."""
    del exporter
    loaded = models.load_language_model(place.path)
    text = text_of_run(place)
    length = options.sequence_length
    if length is None:
        length = loaded.sequence_length
    pairs = None
    if isinstance(text, PairSettings):
        pairs = _held_out_pairs(text, loaded.tokenizer, length)
    return TextModel(loaded.model, length, pairs, loaded.tokenizer)


def _held_out_pairs(text, tokenizer, length):
    """Some of a run's held-out pairs, `None` if their files are missing."""
    try:
        found = load_sentences(
            dataclasses.replace(text, sequence_length=length),
            tokenizer,
            is_held_out=True,
        )
    except (OSError, UsageError) as error:
        print(f"Compared on generated pairs: {error}", flush=True)
        return None
    return found.first_pairs(DECODER_ROWS)


def _held_out(directory, length):
    """Some sequences of a run's held-out text, `None` if there are none."""
    rows = data.open_packed(directory)
    if rows is None:
        return None
    return [
        row[row != data.PADDING][:length] for row in rows.rows[:DECODER_ROWS]
    ]
