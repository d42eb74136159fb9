"""Encoder-decoders that can be measured on sentences and pairs."""

import pathlib

from kdkit import models
from kdkit.cli.measurable import Measurable
from kdkit.cli.options import given_flags
from kdkit.cli.sentences import FOR_OTHERS
from kdkit.cli.writers import beams_of
from kdkit.decoding import TextWriter
from kdkit.errors import UsageError
from kdkit.settings import from_dict
from kdkit.tasks import generation_metrics
from kdkit.tasks import generation_signatures
from kdkit.training.evaluation import make_forward
from kdkit.training.making import check_length
from kdkit.training.run_directory import CONFIG
from kdkit.training.run_directory import RunDirectory
from kdkit.training.run_directory import read_config
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.sentence_settings import SentenceSettings
from kdkit.training.seq2seq_material import load_held_out
from kdkit.training.seq2seq_material import token_metrics

# Options of encoder-decoders alone.
OWN = ("pairs", "pair_columns", "languages", "num_beams", "length_penalty")
# Options of tasks and of running text.
FOREIGN = (
    *("task", "data_dir", "split", "arm", "tokenizer", "stride"),
    *FOR_OTHERS,
)


def is_about_sentences(options) -> bool:
    """Whether a model is to be measured as an encoder-decoder is."""
    return bool(given_flags(options, OWN)) or models.has_encoder_decoder(
        options.model
    )


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
    if not models.has_encoder_decoder(options.model):
        raise UsageError(
            f"{options.model} is no encoder-decoder. Expected a run of kdkit "
            "pretrain with a MASS, or its preset directory."
        )
    text = _text(options)
    text.check()
    loaded = models.load_language_model(options.model)
    check_length(text.sequence_length, loaded.model, "--sequence-length ")
    tokenizer = loaded.tokenizer
    held_out = load_held_out(text, tokenizer)
    about = {
        "corpus": None,
        "pairs": None,
        "languages": list(text.languages),
        "sequence_length": text.sequence_length,
        "examples": len(held_out),
    }
    writer, pairs = None, ()
    if isinstance(text, PairSettings):
        beams = beams_of(options)
        about["pairs"] = list(text.held_out)
        about["beam_size"] = beams.beam_size
        about["length_penalty"] = beams.length_penalty
        about["signatures"] = generation_signatures()
        writer = TextWriter(
            loaded.model, tokenizer, text.sides, beams, text.sequence_length
        )
        pairs = list(text.pairs(held_out=True))
    else:
        about["corpus"] = list(text.held_out)
    forward = make_forward(loaded.model)

    def measure():
        measured = token_metrics(forward, held_out.batches())
        if writer is None:
            return measured
        sources, targets = map(list, zip(*pairs, strict=True))
        return generation_metrics(writer(sources), targets) | measured

    run = None
    if pathlib.Path(options.model, CONFIG).is_file() and (
        read_config(options.model).get("verb") == "pretrain"
    ):
        run = RunDirectory(pathlib.Path(options.model))
    return Measurable(about, measure, loaded.model, run)


def _text(options):
    """What is measured on: all of the files named, or what a run held out."""
    own = _own_text(options.model)
    languages = tuple(options.languages or ())
    if not languages and own is not None:
        languages = own.languages
    length = options.sequence_length or (own.sequence_length if own else 128)
    same = {"languages": languages, "sequence_length": length}
    if options.pairs is not None:
        files = tuple(options.pairs)
        return PairSettings(
            files=files,
            held_out=files,
            columns=tuple(options.pair_columns or ()),
            **same,
        )
    if options.corpus is not None:
        files = tuple(options.corpus)
        return SentenceSettings(files=files, held_out=files, **same)
    if own is None:
        raise UsageError(
            f"{options.model} is not a run that held out text. Pass --pairs "
            "SOURCE TARGET, or --corpus FILE."
        )
    return own


def _own_text(place):
    """The sentences or pairs of the run that a model is of, or `None`."""
    if not pathlib.Path(place, CONFIG).is_file():
        return None
    config = read_config(place)
    if config.get("verb") != "pretrain":
        return None
    return from_dict(PretrainSettings, config).corpus
