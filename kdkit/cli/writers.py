"""What encoder-decoders write of texts, as the options of verbs say."""

import pathlib

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
    lines = [options.prompt]
    if options.input is not None:
        lines = _read(options)
    elif not options.prompt:
        raise UsageError(
            "An encoder-decoder writes of a text. Expected one in --prompt, or "
            "a file of them in --input. Received: none."
        )
    place = locate(options.model)
    model, tokenizer = open_writer(place, options)
    writer = TextWriter(
        model,
        tokenizer,
        _languages(options, place, tokenizer),
        beams,
        _max_tokens(options, place, model),
    )
    if options.input is None:
        print(writer(lines)[0])
        return
    written = []
    for begin in range(0, len(lines), LINES_AT_ONCE):
        written += writer(lines[begin : begin + LINES_AT_ONCE])
        print(f"{len(written)} of {len(lines)} texts.", flush=True)
    write_text(
        pathlib.Path(options.output), "".join(f"{line}\n" for line in written)
    )


def is_writer(model: str) -> bool:
    """Whether a MODEL is an encoder-decoder, or a file of one."""
    return models.has_encoder_decoder(model) or export.reads_sources(model)


def open_writer(place, options):
    """Opens an encoder-decoder or its file, with its tokenizer.

    Args:
        place: `kdkit.cli.locating.Place`.
        options: the parsed options, with `tokenizer`.

    Raises:
        UsageError: if a file's tokenizer is not known, or a model is told one.
    """
    if place.path.suffix == ".tflite":
        file = export.LiteRTSeq2Seq(place.path)
        return file, file_tokenizer(place, options)
    if options.tokenizer is not None:
        raise UsageError(
            "--tokenizer is for exported files. Received: "
            f"{place.path}, which has its own. Leave it out."
        )
    loaded = models.load_language_model(place.path)
    return loaded.model, loaded.tokenizer


def _max_tokens(options, place, model):
    """What is given, or that of the run, or all that the model reads."""
    if options.max_tokens is not None:
        return options.max_tokens
    if isinstance(model, export.LiteRTSeq2Seq):
        return min(model.source_length, model.sequence_length)
    return place.config.get("corpus", {}).get(
        "sequence_length", model.backbone.max_sequence_length
    )


def _read(options):
    """The lines to write of, once it is sure that what is written has a place.

    A line stays one: each has a text, and so has each that is written.
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


def _languages(options, place, tokenizer):
    """The languages that are read and written: given, or those of the run."""
    if options.languages is not None:
        if len(options.languages) != 2:
            raise UsageError(
                "--languages are the one that is read and the one that is "
                f"written. Received: {' '.join(options.languages)}."
            )
        return tuple(options.languages)
    corpus = place.config.get("corpus", {})
    if "columns" in corpus:  # a run on pairs
        return tuple(corpus["languages"]) or (None, None)
    if tokenizer.languages:
        raise UsageError(
            "The model knows several languages. Expected --languages SOURCE "
            f"TARGET, two of {', '.join(tokenizer.languages)}. Received: none."
        )
    return None, None
