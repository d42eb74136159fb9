"""Encoder-decoders that can be measured on sentences and pairs."""

import dataclasses
import sys

from kdkit import decoding
from kdkit.cli.locating import locate
from kdkit.cli.measurable import Measurable
from kdkit.cli.options import given_flags
from kdkit.cli.sentences import FOR_OTHERS
from kdkit.cli.writers import beams_of
from kdkit.cli.writers import is_writer
from kdkit.cli.writers import languages_of
from kdkit.cli.writers import open_writer
from kdkit.errors import UsageError
from kdkit.tasks import generation_metrics
from kdkit.tasks import generation_signatures
from kdkit.training import inputs
from kdkit.training import seq2seq_material
from kdkit.training.evaluation import make_forward
from kdkit.training.making import check_length
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.sentence_settings import SentenceSettings

# Options of encoder-decoders alone.
OWN = ("pairs", "pair_columns", "languages", "num_beams", "length_penalty")
# Of the perplexity from other sources over that from a target's own.
LEAST_EFFECT = 1.05
# Options of tasks and of running text.
FOREIGN = (
    *("task", "data_dir", "split", "arm", "stride"),
    *FOR_OTHERS,
)


def is_about_sentences(options) -> bool:
    """Whether a model is to be measured as an encoder-decoder is."""
    return bool(given_flags(options, OWN)) or is_writer(options.model)


def open_on_sentences(options) -> Measurable:
    """Opens an encoder-decoder with what it is measured on.

    With pairs it writes the target of each source, and is measured by that as
    well as by the perplexity of the true one.

    Args:
        options: the parsed options of `kdkit evaluate`. Without `pairs` and
            `corpus` the text is what the run of the model held out.

    Raises:
        UsageError: if an option or the model does not fit, or a file is missing
            or malformed.
    """
    foreign = given_flags(options, FOREIGN)
    if foreign:
        raise UsageError(
            f"{', '.join(foreign)}: not of an encoder-decoder, which is "
            "measured on --pairs or the sentences of --corpus. Leave it out."
        )
    if not is_writer(options.model):
        raise UsageError(
            f"{options.model} is no encoder-decoder. Expected a run of kdkit "
            "pretrain with a MASS, its preset directory, or a .tflite file of "
            "it."
        )
    _check_combination(options)
    beams = beams_of(options)
    place = locate(options.model)
    opened = open_writer(place, options)
    text = _text(options, opened)
    _check_text(text, options, opened)
    held_out = seq2seq_material.load_held_out(text, opened.tokenizer)
    if held_out.num_truncated:
        print(
            f"{held_out.num_truncated} texts are cut to {text.sequence_length} "
            "tokens.",
            file=sys.stderr,
        )
    about = {
        "corpus": None,
        "pairs": None,
        "held_out_every": None if text.held_out else text.held_out_every,
        "languages": list(text.languages),
        "sequence_length": text.sequence_length,
        "examples": len(held_out),
    }
    files = list(text.held_out or text.files)
    writer = None
    if isinstance(text, PairSettings):
        about |= {
            "pairs": files,
            "columns": list(text.columns),
            "beam_size": beams.beam_size,
            "length_penalty": beams.length_penalty,
            "signatures": generation_signatures(text.sides[1]),
        }
        writer = decoding.TextWriter(
            opened.model,
            opened.tokenizer,
            text.sides,
            beams,
            text.sequence_length,
        )
    else:
        about |= {
            "corpus": files,
            "column": text.column,
            "spans": dataclasses.asdict(text.spans),
        }
    forward = None if opened.is_file else make_forward(opened.model)

    def measure():
        measured = {}
        if writer is not None:
            sources, targets = map(
                list, zip(*text.pairs(held_out=True), strict=True)
            )
            measured = generation_metrics(
                writer(sources), targets, text.sides[1]
            )
        if forward is not None:
            measured |= seq2seq_material.token_metrics(
                forward, held_out.batches()
            )
            if writer is not None and len(held_out) > 1:
                measured |= _reading(forward, held_out, measured["perplexity"])
        return measured

    model = None if opened.is_file else opened.model
    content = {
        "data_digest": inputs.rows_digest(list(text.texts(held_out=True)))
    }
    return Measurable(
        about, content, measure, model, place.run, place.arm, content
    )


def _reading(forward, held_out, perplexity):
    """How much worse targets are predicted from the sources of others."""
    mixed_up = seq2seq_material.token_metrics(
        forward, seq2seq_material.other_sources(held_out.batches())
    )
    others = mixed_up["perplexity"]
    if others < LEAST_EFFECT * perplexity:
        print(
            "The model writes without reading: from the sources of other "
            f"targets its perplexity is {others:.4g}, from their own "
            f"{perplexity:.4g}. Train it for more updates or, where it stays "
            "so, with a smaller learning_rate.",
            file=sys.stderr,
        )
    return {"perplexity_of_other_sources": others}


def _check_combination(options):
    """Refuses options that mean nothing together."""
    if options.pairs is not None and options.corpus is not None:
        raise UsageError(
            "An encoder-decoder is measured on --pairs or on the sentences of "
            "--corpus. Received: both. Leave one of them out."
        )
    if options.corpus is None and given_flags(options, ("column",)):
        raise UsageError("--column needs --corpus FILE. Received: none.")
    if options.pairs is None:
        needed = ["pair_columns"]
        if options.corpus is None:  # what the run held out is read as it was
            needed += ["languages", "sequence_length"]
        else:
            needed += ["num_beams", "length_penalty"]
        given = given_flags(options, needed)
        if given:
            raise UsageError(
                f"{', '.join(given)} needs --pairs SOURCE TARGET. Received: "
                "none."
            )


def _check_text(text, options, opened):
    """Refuses text that the model cannot read, and files what they cannot."""
    seq2seq_material.check_vocabulary(text, opened.tokenizer)
    if not opened.is_file:
        check_length(text.sequence_length, opened.model, "--sequence-length ")
    elif isinstance(text, SentenceSettings):
        raise UsageError(
            "A file is measured by what it writes. Expected --pairs. Received: "
            "sentences, of which a span is predicted."
        )
    if isinstance(text, SentenceSettings):
        given = given_flags(options, ("num_beams", "length_penalty"))
        if given:
            raise UsageError(
                f"{', '.join(given)}: nothing is written of sentences with a "
                "hidden span. Leave it out, or pass --pairs."
            )


def _text(options, opened):
    """What is measured on: all of the files named, or what a run held out."""
    own = opened.text
    length = options.sequence_length
    if length is None:
        length = opened.room
        if options.pairs is None and options.corpus is None and own is not None:
            length = min(length, own.sequence_length)
    if options.pairs is not None:
        files = tuple(options.pairs)
        sides = languages_of(options, opened)
        return PairSettings(
            files=files,
            held_out=files,
            columns=tuple(options.pair_columns or ()),
            languages=() if None in sides else sides,
            sequence_length=length,
        )
    if options.corpus is not None:
        files = tuple(options.corpus)
        languages, spans = options.languages, {}
        if isinstance(own, SentenceSettings):
            spans = {"spans": own.spans}
            if languages is None and len(own.languages) == len(files):
                languages = own.languages
            if options.column != own.column:
                print(
                    f"This text is read with column {options.column}; that of "
                    f"{options.model} was with column {own.column}.",
                    file=sys.stderr,
                )
        return SentenceSettings(
            files=files,
            held_out=files,
            languages=tuple(languages or ()),
            column=options.column,
            sequence_length=length,
            **spans,
        )
    if own is None:
        raise UsageError(
            f"{options.model} is not a run that held out text. Pass --pairs "
            "SOURCE TARGET, or --corpus FILE."
        )
    return dataclasses.replace(own, sequence_length=length)
