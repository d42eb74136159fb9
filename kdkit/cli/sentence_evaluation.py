"""Encoder-decoders that can be measured on sentences and pairs."""

from kdkit import export
from kdkit.cli.locating import locate
from kdkit.cli.measurable import Measurable
from kdkit.cli.options import given_flags
from kdkit.cli.sentences import FOR_OTHERS
from kdkit.cli.writers import beams_of
from kdkit.cli.writers import is_writer
from kdkit.cli.writers import open_writer
from kdkit.decoding import TextWriter
from kdkit.errors import UsageError
from kdkit.settings import from_dict
from kdkit.tasks import generation_metrics
from kdkit.tasks import generation_signatures
from kdkit.training.evaluation import make_forward
from kdkit.training.making import check_length
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.sentence_settings import SentenceSettings
from kdkit.training.seq2seq_material import load_held_out
from kdkit.training.seq2seq_material import token_metrics

# Options of encoder-decoders alone.
OWN = ("pairs", "pair_columns", "languages", "num_beams", "length_penalty")
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
    place = locate(options.model)
    text = _text(options, place)
    text.check()
    model, tokenizer = open_writer(place, options)
    is_file = isinstance(model, export.LiteRTSeq2Seq)
    if not is_file:
        check_length(text.sequence_length, model, "--sequence-length ")
    elif isinstance(text, SentenceSettings):
        raise UsageError(
            "A file is measured by what it writes. Expected --pairs. Received: "
            "sentences, of which a span is predicted."
        )
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
            model, tokenizer, text.sides, beams, text.sequence_length
        )
        pairs = list(text.pairs(held_out=True))
    else:
        about["corpus"] = list(text.held_out)
    forward = None if is_file else make_forward(model)

    def measure():
        measured = {}
        if writer is not None:
            sources, targets = map(list, zip(*pairs, strict=True))
            measured = generation_metrics(writer(sources), targets)
        if forward is not None:
            measured |= token_metrics(forward, held_out.batches())
        return measured

    return Measurable(
        about, measure, None if is_file else model, place.run, place.arm
    )


def _text(options, place):
    """What is measured on: all of the files named, or what a run held out."""
    own = None
    if place.config.get("verb") == "pretrain":
        own = from_dict(PretrainSettings, place.config).corpus
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
