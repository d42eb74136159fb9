"""Opens encoder-decoders for writing texts."""

import dataclasses

import keras

from kdkit import export, generation, models
from kdkit.cli.models import OWN_TOKENIZER, file_tokenizer
from kdkit.cli.verb_flags import reject_given
from kdkit.config.data import Pairs, Sentences
from kdkit.errors import UsageError


def beam_settings(options) -> "generation.Beams":
    """Returns the beam search of the options, by default that of `Beams`."""
    names = {"num_beams": "beam_size", "length_penalty": "length_penalty"}
    return generation.Beams(
        **{
            field: getattr(options, name)
            for name, field in names.items()
            if getattr(options, name) is not None
        }
    )


@dataclasses.dataclass(frozen=True)
class OpenedWriter:
    """An encoder-decoder or its file, with its tokenizer and its run's text.

    Args:
        model: `kdkit.models.MassSeq2SeqLM` or `kdkit.export.LiteRTSeq2Seq`.
        tokenizer: `kdkit.models.Tokenizer` with languages.
        text: `Sentences` or `Pairs` of the model's run, or `None`.
        languages: tuple of two strings or `None`s. The languages of source and
            target.
        trained_length: int or `None`. The largest number of tokens in its
            training, if known.
    """

    model: object
    tokenizer: object
    text: Sentences | Pairs | None
    languages: tuple[str | None, str | None]
    trained_length: int | None

    @property
    def is_file(self) -> bool:
        return not isinstance(self.model, keras.Model)

    @property
    def room(self) -> int:
        """The default number of tokens to read and to write."""
        positions = (
            self.model.room
            if self.is_file
            else self.model.backbone.max_sequence_length
        )
        return min(positions, self.trained_length or positions)


def is_writer(model: str) -> bool:
    """Returns whether a MODEL is an encoder-decoder or its file."""
    is_known = models.find(model).kind == "encoder_decoder"
    return is_known or export.reads_sources(model)


def open_writer(place, options) -> OpenedWriter:
    """Opens an encoder-decoder or its file."""
    text = place.corpus
    if export.exporter_of(place.path) is not None:
        file = export.open_file(place.path)
        languages = text.sides if isinstance(text, Pairs) else (None,) * 2
        tokenizer = file_tokenizer(place, options.tokenizer)
        length = None if text is None else text.sequence_length
        return OpenedWriter(file, tokenizer, text, languages, length)
    reject_given(options, ("tokenizer",), OWN_TOKENIZER)
    loaded = models.load_language_model(place.path)
    return OpenedWriter(
        loaded.model,
        loaded.tokenizer,
        text,
        loaded.languages,
        loaded.sequence_length,
    )


def languages_of(options, opened) -> tuple[str | None, str | None]:
    """Returns the languages of source and target: the user's or the model's."""
    if options.languages is not None:
        return tuple(options.languages)
    known = opened.tokenizer.languages
    if known and None in opened.languages:
        raise UsageError(
            "Expected --languages SOURCE TARGET, two of "
            f"{', '.join(known)}. Received: none."
        )
    return opened.languages
