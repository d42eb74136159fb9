"""Language models to export, with texts that their runs held out."""

import dataclasses

from kdkit import data
from kdkit import models
from kdkit.cli.texts import text_of_run
from kdkit.errors import UsageError
from kdkit.training import text_data
from kdkit.training.sentence_settings import PairSettings

DECODER_ROWS = 4  # read token by token


def read_decoder(place, exporter, options) -> dict:
    """Loads a decoder, with its run's held-out text.

    Args:
        place: `kdkit.cli.models.Place`.
        exporter: `kdkit.export.Exporter`.
        options: the parsed options of `kdkit export`.

    Returns:
        A dict with `model`, `sequence_length`, `verification_data` and
        `tokenizer`.

    Raises:
        UsageError: if the file needs a length and the decoder has none.
    """
    loaded = models.load_language_model(place.path)
    model = loaded.model
    length = options.sequence_length
    if length is None and exporter.in_steps:
        length = models.num_positions(model)
        if length is None:
            raise UsageError(
                f"{place.path} reads texts of any length, but a file needs a "
                "fixed one. Pass --sequence-length N."
            )
    texts = None
    if place.run is not None:
        texts = _held_out(place.run.path / "corpus" / "held_out", length)
    return {
        "model": model,
        "sequence_length": length,
        "verification_data": texts,
        "tokenizer": loaded.tokenizer,
    }


def read_encoder_decoder(place, exporter, options) -> dict:
    """Loads an encoder-decoder, with its run's held-out pairs.

    Args: as for `read_decoder`.

    Returns:
        As `read_decoder`, without `tokenizer`.
    """
    del exporter
    loaded = models.load_language_model(place.path)
    text = text_of_run(place)
    length = options.sequence_length
    if length is None:
        length = loaded.sequence_length
    pairs = None
    if isinstance(text, PairSettings):
        pairs = _held_out_pairs(text, loaded.tokenizer, length)
    return {
        "model": loaded.model,
        "sequence_length": length,
        "verification_data": pairs,
    }


def _held_out_pairs(text, tokenizer, length):
    """Some of a run's held-out pairs, `None` if their files are missing."""
    try:
        found = text_data.load_sentences(
            dataclasses.replace(text, sequence_length=length),
            tokenizer,
            is_held_out=True,
        )
    except UsageError as error:
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
