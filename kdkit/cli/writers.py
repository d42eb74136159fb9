"""What encoder-decoders write of texts, as the options of verbs say."""

import dataclasses

import keras

from kdkit import decoding
from kdkit import export
from kdkit import models
from kdkit.cli.opening import file_tokenizer
from kdkit.errors import UsageError
from kdkit.settings import from_dict
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.sentence_settings import SentenceSettings


def beams_of(options) -> "decoding.Beams":
    """The beams that the options say, those of `Beams` unless they do.

    Raises:
        UsageError: for a beam of 0 or a negative penalty.
    """
    names = {"num_beams": "beam_size", "length_penalty": "length_penalty"}
    return decoding.Beams(
        **{
            field: getattr(options, name)
            for name, field in names.items()
            if getattr(options, name) is not None
        }
    )


@dataclasses.dataclass(frozen=True)
class OpenedWriter:
    """An encoder-decoder or its file, and what is known of it.

    Args:
        model: `kdkit.models.MassSeq2SeqLM` or `kdkit.export.LiteRTSeq2Seq`.
        tokenizer: `kdkit.models.MassTokenizer` or
            `kdkit.models.TokenizerPair`.
        text: `SentenceSettings` or `PairSettings` of the run that it is of, or
            `None`.
        languages: tuple of two strings or `None`s. What it reads and writes.
        trained_length: int or `None`. How many tokens of a text it was trained
            on at most, where that is known.
    """

    model: object
    tokenizer: object
    text: SentenceSettings | PairSettings | None
    languages: tuple[str | None, str | None]
    trained_length: int | None

    @property
    def is_file(self) -> bool:
        return not isinstance(self.model, keras.Model)

    @property
    def room(self) -> int:
        """How many tokens are read and written unless it is said.

        Positions behind those of training are still what they were at random.
        """
        positions = (
            self.model.room
            if self.is_file
            else self.model.backbone.max_sequence_length
        )
        return min(positions, self.trained_length or positions)


def is_writer(model: str) -> bool:
    """Whether a MODEL is an encoder-decoder, or a file of one."""
    return models.has_encoder_decoder(model) or export.reads_sources(model)


def open_writer(place, options) -> OpenedWriter:
    """Opens an encoder-decoder or its file.

    Args:
        place: `kdkit.cli.locating.Place`.
        options: the parsed options, with `tokenizer`.

    Raises:
        UsageError: if a file's tokenizer is not known, or a model is told one.
    """
    text = text_of_run(place)
    if export.exporter_of(place.path) is not None:
        file = export.open_file(place.path, kind="encoder_decoder")
        languages = (
            text.sides if isinstance(text, PairSettings) else (None,) * 2
        )
        tokenizer = file_tokenizer(place, options)
        models.check_sentence_pieces(tokenizer)
        length = None if text is None else text.sequence_length
        return OpenedWriter(file, tokenizer, text, languages, length)
    if options.tokenizer is not None:
        raise UsageError(
            "--tokenizer is for exported files. Received: "
            f"{place.path}, which has its own. Leave it out."
        )
    loaded = models.load_language_model(place.path)
    return OpenedWriter(
        loaded.model,
        loaded.tokenizer,
        text,
        loaded.languages,
        loaded.sequence_length,
    )


def text_of_run(place) -> SentenceSettings | PairSettings | None:
    """What the run of an encoder-decoder learned from, if it is of one."""
    if place.config.get("verb") != "pretrain":
        return None
    return from_dict(PretrainSettings, place.config).corpus


def languages_of(options, opened) -> tuple[str | None, str | None]:
    """The languages that are read and written: given, or the model's own.

    Raises:
        UsageError: if they are not two, or not known.
    """
    if options.languages is not None:
        if len(options.languages) != 2:
            raise UsageError(
                "--languages are the one that is read and the one that is "
                f"written. Received: {' '.join(options.languages)}."
            )
        return tuple(options.languages)
    known = models.languages_of(opened.tokenizer)
    if known and None in opened.languages:
        raise UsageError(
            "The model knows several languages. Expected --languages SOURCE "
            f"TARGET, two of {', '.join(known)}. Received: none."
        )
    return opened.languages
