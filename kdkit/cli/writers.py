"""What encoder-decoders write of texts, as the options of verbs say."""

import dataclasses
import pathlib
import sys

from kdkit import export
from kdkit import models
from kdkit.cli.locating import locate
from kdkit.cli.opening import file_tokenizer
from kdkit.cli.options import given_flags
from kdkit.data.corpus import numbered_lines
from kdkit.decoding import Beams
from kdkit.decoding import TextWriter
from kdkit.errors import UsageError
from kdkit.files import write_text
from kdkit.settings import from_dict
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.sentence_settings import SentenceSettings

# Lines that are written before the next line of progress.
LINES_AT_ONCE = 500
# Options of `kdkit generate` that are not of encoder-decoders.
OF_DECODERS = ("temperature", "top_k", "top_p", "seed")


def beams_of(options) -> Beams:
    """The beams that the options say, those of `Beams` unless they do.

    Raises:
        UsageError: for a beam of 0 or a negative penalty.
    """
    names = {"num_beams": "beam_size", "length_penalty": "length_penalty"}
    return Beams(
        **{
            field: getattr(options, name)
            for name, field in names.items()
            if getattr(options, name) is not None
        }
    )


def print_written(options) -> None:
    """Prints what an encoder-decoder writes of a text, or writes a file.

    Args:
        options: the parsed options of `kdkit generate`.

    Raises:
        UsageError: if an option is not of encoder-decoders, a file is missing
            or there already, or a language has no token.
    """
    foreign = given_flags(options, OF_DECODERS)
    if options.sampler not in ("greedy", "beam"):
        foreign.append(f"--sampler {options.sampler}")
    if foreign:
        raise UsageError(
            f"{', '.join(foreign)}: not of an encoder-decoder, which writes "
            "what is likeliest. Leave it out."
        )
    if options.sampler == "greedy":
        given = given_flags(options, ("num_beams", "length_penalty"))
        if given:
            raise UsageError(
                f"{', '.join(given)} needs --sampler beam. Received: greedy."
            )
        beams = Beams(1)
    else:
        beams = beams_of(options)
    if options.input is None and options.output is not None:
        raise UsageError("--output needs --input FILE. Received: none.")
    lines = [options.prompt]
    if options.input is not None:
        lines = _read(options)
    elif not options.prompt:
        raise UsageError(
            "An encoder-decoder writes of a text. Expected one in --prompt, or "
            "a file of them in --input. Received: none."
        )
    place = locate(options.model)
    opened = open_writer(place, options)
    writer = TextWriter(
        opened.model,
        opened.tokenizer,
        languages_of(options, opened),
        beams,
        opened.room if options.max_tokens is None else options.max_tokens,
    )
    if options.input is None:
        print(writer(lines)[0])
        _say_cut(writer)
        return
    written = []
    for begin in range(0, len(lines), LINES_AT_ONCE):
        written += writer(lines[begin : begin + LINES_AT_ONCE])
        print(f"{len(written)} of {len(lines)} texts.", flush=True)
    write_text(
        pathlib.Path(options.output), "".join(f"{line}\n" for line in written)
    )
    _say_cut(writer)
    empty = [number for number, line in enumerate(written, 1) if not line]
    if empty:
        print(
            f"{len(empty)} texts are empty, the first in line {empty[0]}: "
            "leave these pairs out.",
            file=sys.stderr,
        )


def _say_cut(writer):
    if writer.num_truncated:
        print(
            f"{writer.num_truncated} texts were cut, since they have more "
            "tokens than are read.",
            file=sys.stderr,
        )


@dataclasses.dataclass(frozen=True)
class OpenedWriter:
    """An encoder-decoder or its file, and what is known of it.

    Args:
        model: `kdkit.models.MassSeq2SeqLM` or `kdkit.export.LiteRTSeq2Seq`.
        tokenizer: `kdkit.models.MassTokenizer`.
        text: `SentenceSettings` or `PairSettings` of the run that it is of, or
            `None`.
        languages: tuple of two strings or `None`s. What it reads and writes.
    """

    model: object
    tokenizer: object
    text: SentenceSettings | PairSettings | None
    languages: tuple[str | None, str | None]

    @property
    def is_file(self) -> bool:
        return isinstance(self.model, export.LiteRTSeq2Seq)

    @property
    def room(self) -> int:
        """How many tokens are read and written unless it is said."""
        if self.is_file:
            return min(self.model.source_length, self.model.sequence_length)
        if self.text is not None:
            return self.text.sequence_length
        return self.model.backbone.max_sequence_length


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
    if place.path.suffix == ".tflite":
        file = export.LiteRTSeq2Seq(place.path)
        languages = (
            text.sides if isinstance(text, PairSettings) else (None,) * 2
        )
        return OpenedWriter(
            file, file_tokenizer(place, options), text, languages
        )
    if options.tokenizer is not None:
        raise UsageError(
            "--tokenizer is for exported files. Received: "
            f"{place.path}, which has its own. Leave it out."
        )
    loaded = models.load_language_model(place.path)
    return OpenedWriter(loaded.model, loaded.tokenizer, text, loaded.languages)


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
    known = opened.tokenizer.languages
    if known and None in opened.languages:
        raise UsageError(
            "The model knows several languages. Expected --languages SOURCE "
            f"TARGET, two of {', '.join(known)}. Received: none."
        )
    return opened.languages


def _read(options):
    """The lines to write of, once it is sure that what is written has a place.

    Each line has a text.
    """
    if options.output is None:
        raise UsageError("--input needs --output FILE. Received: none.")
    if options.prompt:
        raise UsageError(
            "--prompt and --input are both what is read. Leave one of them out."
        )
    output = pathlib.Path(options.output)
    if output.exists():
        raise UsageError(f"{output} is there already. Name another --output.")
    path = pathlib.Path(options.input)
    lines = []
    for number, line in numbered_lines(path):
        if not line.strip():
            raise UsageError(
                f"{path}, line {number}: expected a text. Received: an empty "
                "line. Remove it."
            )
        lines.append(line.strip())
    if not lines:
        raise UsageError(f"{path}: expected texts. Received: an empty file.")
    return lines
