"""Writes text with a decoder or an encoder-decoder.

MODEL is a run of kdkit pretrain, a preset directory or a .tflite file. A
decoder continues --prompt, as the beginning of a document, until the document's
end or --max-tokens.

An encoder-decoder writes the target for a source, for example a translation. It
reads --prompt, or each line of --input, and writes one line of --output for
each. The same command continues a stopped file. For sequence-level distillation
(Kim and Rush, 2016), a student learns from a teacher's beams with kdkit
pretrain --pairs; --kept-input then drops the lines whose output is empty.

example:
  kdkit generate runs/gpt2 --prompt "the company said"
  kdkit generate runs/gpt2/exports/decoder-int8.tflite --sampler top_p \\
      --top-p 0.9 --temperature 0.8 --seed 1 --prompt "the company said"
  kdkit generate runs/en_de --sampler beam --num-beams 5 --prompt "Two dogs."
  kdkit generate runs/en_de --sampler beam --input train.en \\
      --output written.de --kept-input written.en
"""

import dataclasses
import itertools
import json
import pathlib
import sys

from kdkit import models
from kdkit.cli.loading import load_tensorflow
from kdkit.cli.verb_flags import (
    BEAMS,
    VerbParser,
    beams,
    flag,
    reject_given,
    require,
    seed,
)
from kdkit.data.texts import reject_table
from kdkit.errors import UsageError, printable, unknown
from kdkit.io.files import digest_of_text, with_own_digest, write_text
from kdkit.io.locks import alone_with, append_line
from kdkit.io.reading import has_text, json_lines, numbered_lines

# The names of keras-hub's samplers, and the options that each one reads.
SAMPLERS = {
    "greedy": (),
    "random": ("temperature", "seed"),
    "top_k": ("top_k", "temperature", "seed"),
    "top_p": ("top_p", "temperature", "seed"),
    "beam": ("num_beams",),
}
ARGUMENTS = {"top_k": "k", "top_p": "p"}  # other names than of the options
VALUES = {
    "model": flag(
        "a run, a preset directory or the .tflite file of a decoder",
        metavar="MODEL",
    )
}
FLAGS = {
    "prompt": flag(
        "the beginning of the text, or an encoder-decoder's source. Defaults "
        "to an empty text.",
        default="",
        metavar="TEXT",
    ),
    "max_tokens": flag(
        "the largest number of new tokens. Defaults to 64. For an "
        "encoder-decoder, the largest number of tokens to read and to write; "
        "defaults to its run's.",
        type=int,
        metavar="N",
    ),
    "sampler": flag(
        "keras-hub's sampler, with its default settings. Defaults to greedy. "
        "beam is for Keras models and for encoder-decoders' files.",
        default="greedy",
        choices=tuple(SAMPLERS),
    ),
    "temperature": flag(
        "for random, top_k and top_p: the temperature", type=float, metavar="T"
    ),
    "top_k": flag("for top_k: the number of tokens", type=int, metavar="K"),
    "top_p": flag("for top_p: the probability", type=float, metavar="P"),
    "seed": flag(
        "for random, top_k and top_p: the random seed. Defaults to 0.",
        type=seed,
        metavar="N",
    ),
    "tokenizer": flag(
        "where the tokenizer is, for a file outside a run", metavar="MODEL"
    ),
}
WRITTEN = {
    **BEAMS,
    "languages": flag(
        "the languages of source and target. Defaults to the run's.",
        nargs=2,
        metavar=("SOURCE", "TARGET"),
    ),
    "input": flag("texts to read, one per line", metavar="FILE"),
    "output": flag(
        "for --input: the file to write, one text per line", metavar="FILE"
    ),
    "kept_input": flag(
        "for --input: also write the lines whose output is not empty. Lines "
        "with an empty output are then in neither file, and the two files "
        "fit kdkit pretrain --pairs.",
        metavar="FILE",
    ),
}


def run(words):
    """Prints or writes a model's text."""
    groups = {"text": FLAGS, "encoder-decoders": WRITTEN}
    options = VerbParser("generate", __doc__, VALUES, groups).parse_args(words)
    load_tensorflow()

    from kdkit import generation
    from kdkit.cli.opened import is_writer, open_place
    from kdkit.cli.places import locate

    if is_writer(options.model):
        print_written(options)
        return
    names = ("input", "output", "kept_input", "languages", "length_penalty")
    reject_given(options, names, "by decoders")
    sampler = _sampler(options)
    opened = open_place(
        locate(options.model), models.load_language_model, options.tokenizer
    )
    end = opened.tokenizer.end_token_id
    given = list(map(int, opened.tokenizer(options.prompt)))
    new = generation.generate(
        opened.runs,
        [end, *given],
        MAX_TOKENS if options.max_tokens is None else options.max_tokens,
        sampler,
        [end],
    )
    show(opened.tokenizer.detokenize([*given, *map(int, new)]))


MAX_TOKENS = 64


def _sampler(options):
    import keras_hub

    names = SAMPLERS[options.sampler]
    others = {one for of_one in SAMPLERS.values() for one in of_one} - {*names}
    where = f"by the sampler {options.sampler!r}"
    reject_given(options, sorted(others), where)
    given = {name: getattr(options, name) for name in names}
    arguments = {
        ARGUMENTS.get(name, name): value
        for name, value in given.items()
        if value is not None
    }
    if arguments.get("temperature", 1) <= 0 or not (
        0 < arguments.get("p", 1) <= 1
    ):
        raise UsageError(f"Not a range of {options.sampler}: {arguments}.")
    if "seed" in names:
        arguments.setdefault("seed", 0)
    setting = {"class_name": options.sampler, "config": arguments}
    return keras_hub.samplers.get(setting)


# Lines that are written before they are saved.
LINES_AT_ONCE = 500
# Options of `kdkit generate` that encoder-decoders do not have.
OF_DECODERS = ("temperature", "top_k", "top_p", "seed")


def print_written(options) -> None:
    """Prints an encoder-decoder's target for a text, or writes a file."""
    from kdkit import generation
    from kdkit.cli.opened import languages_of, open_writer
    from kdkit.cli.places import locate
    from kdkit.runs import inputs

    search = _beams(options)
    if options.input is None:
        reject_given(options, ("output", "kept_input"), "without --input")
        sources = [options.prompt]
    else:
        require(options, "output")
        sources = _lines(pathlib.Path(options.input))
    place = locate(options.model)
    opened = open_writer(place, options.tokenizer)
    languages = languages_of(options, opened)
    max_tokens = options.max_tokens
    if max_tokens is None:
        max_tokens = opened.sequence_length
    writer = generation.TextWriter(
        opened.runs, opened.tokenizer, languages, search, max_tokens
    )
    if options.input is None:
        show(writer(sources)[0])
    else:
        made_from = {
            "model": inputs.model_digest(str(place.path)),
            "sources": sources,
            "languages": list(languages),
            "beams": dataclasses.asdict(search),
            "max_tokens": max_tokens,
            "tokenizer": options.tokenizer,
        }
        key = digest_of_text(json.dumps(made_from))
        _write(writer, sources, options, key)
    for count, what in (
        (
            writer.num_truncated,
            "were truncated before reading: too many tokens",
        ),
        (writer.num_unfinished, "have no end: too many tokens"),
    ):
        if count:
            print(f"{count} texts {what}.", file=sys.stderr)


def show(text: str) -> None:
    """Prints a model's text; on a terminal, only printable characters."""
    print(printable(text) if sys.stdout.isatty() else text)


def _beams(options):
    """The beams for --sampler."""
    from kdkit import generation

    reject_given(options, OF_DECODERS, "by encoder-decoders")
    if options.sampler == "beam":
        return generation.Beams(**beams(options))
    if options.sampler != "greedy":
        raise unknown("sampler", options.sampler, ("greedy", "beam"))
    reject_given(options, ("num_beams", "length_penalty"), "by greedy search")
    return generation.Beams(1)


def _write(writer, sources, options, key):
    """Writes a line for each source; a stopped call goes on where it was.

    Until all are there, OUTPUT.partial has them: lines of JSON, each with some
    texts, the number of those before them, and the key of what they depend on.
    """
    output = pathlib.Path(options.output)
    outputs = [output]
    if options.kept_input is not None:  # first: the output ends the call
        outputs.insert(0, pathlib.Path(options.kept_input))
    partial = output.with_name(f"{output.name}.partial")
    output.parent.mkdir(parents=True, exist_ok=True)
    with alone_with(output):
        texts = _begun(partial, key)
        # A call that was stopped at its end has written some of its outputs.
        had_ended = bool(texts) and len(texts) == len(sources)
        for path in outputs:
            is_twice = [one.resolve() for one in outputs].count(path.resolve())
            if is_twice > 1 or (path.exists() and not had_ended):
                raise UsageError(f"{path} already exists.")
        if texts:
            print(f"Continuing after {len(texts)} texts.", flush=True)
        for begin in range(len(texts), len(sources), LINES_AT_ONCE):
            some = writer(sources[begin : begin + LINES_AT_ONCE])
            line = with_own_digest({"of": key, "begin": begin, "texts": some})
            append_line(partial, json.dumps(line))
            texts += some
            print(f"{len(texts)} of {len(sources)} texts.", flush=True)
        are_texts = list(map(has_text, texts))
        if options.kept_input is not None:
            texts = itertools.compress(texts, are_texts)
            kept = itertools.compress(sources, are_texts)
            _write_lines(outputs[0], kept)
        _write_lines(output, texts)
        partial.unlink(missing_ok=True)
    if not all(are_texts):
        number = are_texts.index(False) + 1
        print(
            f"{are_texts.count(False)} texts are empty, the first in line "
            f"{number}: "
            + (
                "dropped, with their sources."
                if options.kept_input
                else "drop them from pairs, as --kept-input does."
            ),
            file=sys.stderr,
        )


def _write_lines(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(f"{line}\n" for line in lines))


def _begun(partial, key):
    """The texts that an earlier call wrote, without what was cut off."""
    texts = []
    for _, line in json_lines(partial) if partial.exists() else ():
        if line is not None and line.get("of") != key:
            raise UsageError(
                f"{partial} was begun with another model, text or setting."
            )
        if line is not None and line["begin"] == len(texts):
            texts += line["texts"]
    return texts


def _lines(path):
    """The lines of a file. Empty lines are an error."""
    lines = []
    for number, line in numbered_lines(path):
        if not has_text(line):
            raise UsageError(
                f"{path}, line {number}: expected a text. Received: an empty "
                "line."
            )
        lines.append(line.strip())
    reject_table(path)
    return lines
