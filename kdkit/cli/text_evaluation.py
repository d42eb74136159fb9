"""Measures language models."""

import dataclasses
import pathlib
import sys

from kdkit import generation, models
from kdkit.cli.opened import (
    languages_of,
    open_writer,
    require_positions,
)
from kdkit.cli.verb_flags import beams, require, unread
from kdkit.config.data import Corpus, Pairs, Sentences
from kdkit.data import BatchStream, Masking
from kdkit.data.packing import open_packed
from kdkit.data.stream import make_forward
from kdkit.errors import UsageError
from kdkit.io.files import digest
from kdkit.models.heads import is_causal
from kdkit.runs import inputs
from kdkit.tasks import generation_metrics, generation_signatures
from kdkit.training.text import (
    load_sentences,
    other_sources,
    pack_text,
    packed_source,
    require_vocabulary,
    sentence_source,
    token_metrics,
)

# Options for reading text, which a run's own text has fields for.
HOW_READ = ("column", "one_document", "detokenizer")


def run_on_text(place, options):
    """Returns the text of a run that is MODEL itself, or `None`.

    Models inside a run, such as RUN/encoder, are measured as presets are.
    """
    is_run = (
        place.run and place.run.path == pathlib.Path(options.model).resolve()
    )
    return place.corpus if is_run else None


def measure_on_text(place, options, folder) -> tuple[dict, dict]:
    """Measures a language model on text."""
    own = run_on_text(place, options)
    masking = Masking() if own is None else own.masking
    length = options.sequence_length
    if length is None:
        length = 128 if own is None else own.sequence_length
    text = own
    if options.corpus is not None:
        # The whole text is measured, so the fields for holding out are unused.
        text = Corpus(
            files=tuple(options.corpus),
            held_out=tuple(options.corpus),
            column=options.column,
            one_document=options.one_document,
            detokenizer=options.detokenizer,
            sequence_length=length,
        )
    loaded = models.load_language_model(options.model)
    if not loaded.has_trained_head:
        raise UsageError(
            f"{options.model} has no trained masked-language-modelling head."
        )
    require_positions(length, models.num_positions(loaded.model))
    how_read = _how_read(text)
    if own is not None and how_read != _how_read(own):
        print(
            f"This text is read with {_in_words(how_read)}, but "
            f"{options.model} was trained with {_in_words(_how_read(own))}.",
            flush=True,
        )
    if options.corpus is not None:
        rows = _pack(text, loaded, folder, options.stride)
    else:
        folder = pathlib.Path(options.model, "corpus/held_out")
        rows = open_packed(folder)
    forward = make_forward(loaded.model)
    source = packed_source(loaded.model, loaded.tokenizer, masking, rows)
    about = {
        "corpus": options.corpus or "held_out",
        **how_read,
        "sequence_length": length,
        "stride": options.stride,
        "examples": len(rows),
    }
    if not is_causal(loaded.model):
        about["masking"] = dataclasses.asdict(masking)
    about["metrics"] = source.evaluate(forward)["metrics"]
    return about, {"data_digest": digest(folder)}


def _how_read(text):
    return {name: getattr(text, name) for name in HOW_READ}


def _in_words(how_read):
    return ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in how_read.items()
    )


def _pack(text, loaded, folder, stride):
    """The whole text as sequences for a model."""
    if not is_causal(loaded.model) and (stride or text.one_document):
        raise unread("--stride or --one-document", "for an encoder")
    return pack_text(text, loaded.tokenizer, folder, loaded.model, True, stride)


# The smallest ratio of the perplexity with other sources to that with the own.
LEAST_EFFECT = 1.05


def measure_on_sentences(place, options, folder) -> tuple[dict, dict]:
    """Measures an encoder-decoder on pairs, or on hidden spans."""
    opened = open_writer(place, options.tokenizer, options.sequence_length)
    text = _text(options, opened)
    require_vocabulary(text, opened.tokenizer)
    held_out = load_sentences(text, opened.tokenizer, is_held_out=True)
    source = sentence_source(None, held_out)
    if held_out.num_truncated:
        print(
            f"{held_out.num_truncated} texts are truncated to "
            f"{text.sequence_length} tokens.",
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
    named = options.pairs or options.corpus
    files, writer = list(named or text.held_out or text.files), None
    if isinstance(text, Pairs):
        search = generation.Beams(**beams(options))
        about |= {
            "pairs": files,
            "columns": list(text.columns),
            "beam_size": search.beam_size,
            "length_penalty": search.length_penalty,
            "signatures": generation_signatures(text.sides[1]),
        }
        writer = generation.TextWriter(
            opened.runs,
            opened.tokenizer,
            text.sides,
            search,
            text.sequence_length,
        )
    elif opened.model is None:
        raise UsageError(
            "A file of an encoder-decoder is measured on --pairs: its losses "
            "of hidden spans are those of the Keras model."
        )
    else:
        about |= {
            "corpus": files,
            "column": text.column,
            "spans": dataclasses.asdict(text.spans),
        }
    measured = {}
    if writer is not None:
        pairs = zip(*text.pairs(held_out=True), strict=True)
        sources, targets = map(list, pairs)
        written, language = writer(sources), text.sides[1]
        measured = generation_metrics(written, targets, language)
    if opened.model is not None:
        forward = make_forward(opened.model)
        measured |= source.evaluate(forward)["metrics"]
        if writer is not None and len(held_out) > 1:
            measured |= _reading(forward, source, measured["perplexity"])
    texts = list(text.texts(held_out=True))
    return about | {"metrics": measured}, {
        "data_digest": inputs.rows_digest(texts)
    }


def _reading(forward, source, perplexity):
    """The perplexity of targets with other targets' sources, as a metric."""
    batches = BatchStream(source.held_out, source.held_out_order).evaluation()
    mixed_up = token_metrics(forward, other_sources(batches), "token_accuracy")
    others = mixed_up["perplexity"]
    if others < LEAST_EFFECT * perplexity:
        print(
            f"The model ignores its source: its perplexity is {others:.4g} "
            f"with other sources and {perplexity:.4g} with the right ones. "
            "Train it for more updates or, if that does not help, with a "
            "smaller learning_rate.",
            file=sys.stderr,
        )
    return {"perplexity_of_other_sources": others}


def _text(options, opened):
    """The text to measure on: the named files, or the run's held-out text."""
    own, length = opened.place.corpus, opened.sequence_length
    if options.pairs is not None:
        files = tuple(options.pairs)
        sides = languages_of(options, opened)
        return Pairs(
            files=files,
            held_out=files,
            columns=tuple(options.pair_columns or ()),
            languages=() if None in sides else sides,
            sequence_length=length,
        )
    if options.corpus is not None:
        files = tuple(options.corpus)
        languages, spans = options.languages, {}
        if isinstance(own, Sentences):
            spans = {"spans": own.spans}
            if languages is None and len(own.languages) == len(files):
                languages = own.languages
            if options.column != own.column:
                print(
                    f"This text is read with column {options.column}, but "
                    f"{options.model} was trained with column {own.column}.",
                    file=sys.stderr,
                )
        return Sentences(
            files=files,
            held_out=files,
            languages=tuple(languages or ()),
            column=options.column,
            sequence_length=length,
            **spans,
        )
    if own is None:
        require(options, "pairs")
    read = {"corpus.files": own.files, "corpus.held_out": own.held_out}
    inputs.require_unchanged(
        opened.place.run,
        {name: inputs.files_digest(read[name]) for name in read if read[name]},
    )
    return own.replace(sequence_length=length)
