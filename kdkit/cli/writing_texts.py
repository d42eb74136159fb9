"""What an encoder-decoder writes of a text, or of each line of a file."""

import dataclasses
import itertools
import pathlib
import sys

from kdkit import decoding
from kdkit.cli.begun_texts import KEPT
from kdkit.cli.begun_texts import BegunTexts
from kdkit.cli.begun_texts import text_of
from kdkit.cli.locating import locate
from kdkit.cli.options import given_flags
from kdkit.cli.writers import beams_of
from kdkit.cli.writers import languages_of
from kdkit.cli.writers import open_writer
from kdkit.data.lines_of_text import refuse_table
from kdkit.disk import writing
from kdkit.errors import UsageError
from kdkit.errors import printable
from kdkit.files import write_text
from kdkit.locks import alone_with
from kdkit.reading import has_text
from kdkit.reading import numbered_lines
from kdkit.training import inputs

# Lines that are written before they are kept.
LINES_AT_ONCE = 500
# Options of `kdkit generate` that are not of encoder-decoders.
OF_DECODERS = ("temperature", "top_k", "top_p", "seed")


def print_written(options) -> None:
    """Prints what an encoder-decoder writes of a text, or writes a file.

    Args:
        options: the parsed options of `kdkit generate`.

    Raises:
        UsageError: if an option is not of encoder-decoders, a file is missing
            or there already, or a language has no token.
    """
    beams = _beams(options)
    lines = [options.prompt] if options.input is None else _read(options)
    alone = given_flags(options, ("output", "kept_input"))
    if options.input is None and (alone or not options.prompt):
        raise UsageError(
            "An encoder-decoder writes of a text. Expected one in --prompt, or "
            "a file of them in --input with --output. Received: "
            f"{', '.join(alone) or 'none'}{' alone' * bool(alone)}."
        )
    place = locate(options.model)
    opened = open_writer(place, options)
    languages = languages_of(options, opened)
    max_tokens = options.max_tokens
    if max_tokens is None:
        max_tokens = opened.room
    writer = decoding.TextWriter(
        opened.model, opened.tokenizer, languages, beams, max_tokens
    )
    if options.input is None:
        show(writer(lines)[0])
    else:
        made_from = {
            "model": inputs.model_digest(str(place.path)),
            "input": inputs.files_digest([options.input]),
            "languages": list(languages),
            "beams": dataclasses.asdict(beams),
            "max_tokens": max_tokens,
        }
        _write(writer, lines, _outputs(options), made_from)
    for count, what in (
        (writer.num_truncated, "were cut: they have more tokens than are read"),
        (writer.num_unfinished, "were written without an end: no room"),
    ):
        if count:
            print(f"{count} texts {what}.", file=sys.stderr)


def show(text: str) -> None:
    """Prints what a model wrote: as it is, but to a terminal as `printable`."""
    print(printable(text) if sys.stdout.isatty() else text)


def _beams(options):
    """The beams of --sampler, which is of an encoder-decoder or refused."""
    foreign = given_flags(options, OF_DECODERS)
    if options.sampler not in ("greedy", "beam"):
        foreign.append(f"--sampler {options.sampler}")
    if foreign:
        raise UsageError(
            f"{', '.join(foreign)}: not of an encoder-decoder, which writes "
            "what is likeliest. Leave it out."
        )
    if options.sampler == "beam":
        return beams_of(options)
    given = given_flags(options, ("num_beams", "length_penalty"))
    if given:
        raise UsageError(
            f"{', '.join(given)} needs --sampler beam. Received: greedy."
        )
    return decoding.Beams(1)


def _outputs(options):
    """Where texts go, and the lines they are of, if that is asked for."""
    outputs = [pathlib.Path(options.output)]
    if options.kept_input is not None:
        outputs.append(pathlib.Path(options.kept_input))
    return outputs


def _write(writer, lines, outputs, made_from):
    """Writes a line for each, beside the final name until all are there.

    What was written before a stop is kept, where it was made from the same.
    """
    output, *kept_input = outputs
    for path in outputs:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
    with alone_with(output, "--output"):
        _check_is_new(output)  # another may just have finished it
        _write_locked(writer, lines, output, kept_input, made_from)


def _write_locked(writer, lines, output, kept_input, made_from):
    """Writes the lines while no other process does."""
    begun = BegunTexts(output, made_from)
    written = begun.lines()
    if written:
        print(f"Going on after {len(written)} texts.", flush=True)
    kept = "What was written is kept beside it, and the same command goes on."
    with writing(output, kept), begun.going_on(written) as add:
        for begin in range(len(written), len(lines), LINES_AT_ONCE):
            some = writer(lines[begin : begin + LINES_AT_ONCE])
            add(some)
            written += some
            print(f"{len(written)} of {len(lines)} texts.", flush=True)
    has_texts = list(map(has_text, written))
    with writing(output, kept):
        for path in kept_input:
            # Of a call that is stopped from here on, the file is its own.
            begun.write_note(**{KEPT: str(path)})
            write_text(path, text_of(itertools.compress(lines, has_texts)))
            written = list(itertools.compress(written, has_texts))
        write_text(output, text_of(written))
        begun.forget()
    if not all(has_texts):
        number = has_texts.index(False) + 1
        rest = (
            "left out, with what they are of"
            if kept_input
            else "to be left out of pairs, as --kept-input does"
        )
        print(
            f"{has_texts.count(False)} texts are empty, the first in line "
            f"{number}: {rest}.",
            file=sys.stderr,
        )


def _check_is_new(path, option="--output"):
    if path.exists():
        raise UsageError(f"{path} is there already. Name another {option}.")


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
    output, *kept_input = _outputs(options)
    begun = BegunTexts(output, {})
    path = pathlib.Path(options.input)
    if output.exists() and begun.are_there:
        with alone_with(output, "--output"):
            if begun.are_done(_lines(path), inputs.files_digest([path])):
                begun.forget()
    _check_is_new(output)
    for kept in kept_input:
        if kept.resolve() in [other.resolve() for other in (path, output)]:
            raise UsageError(
                f"--kept-input is a file of its own. Received: {kept}, which "
                "is --input or --output."
            )
        if begun.kept_input != str(kept):
            _check_is_new(kept, "--kept-input")
    return _lines(path)


def _lines(path):
    """The lines of a file, each of which has a text."""
    lines = []
    for number, line in numbered_lines(path):
        if not has_text(line):
            raise UsageError(
                f"{path}, line {number}: expected a text. Received: an empty "
                "line. Remove it."
            )
        lines.append(line.strip())
    if not lines:
        raise UsageError(f"{path}: expected texts. Received: an empty file.")
    refuse_table(path, lines, "Write its column of texts to a file alone")
    return lines
