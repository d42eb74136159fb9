"""Language models that can be measured on running text."""

import contextlib
import dataclasses
import pathlib
import tempfile

from kdkit import models
from kdkit.cli.measurable import Measurable
from kdkit.cli.options import given_flags
from kdkit.data import Masker
from kdkit.data import Masking
from kdkit.data import masked_evaluation_batches
from kdkit.data import open_packed
from kdkit.data import pack
from kdkit.data import pack_stream
from kdkit.errors import UsageError
from kdkit.files import digest
from kdkit.settings import from_dict
from kdkit.training.causal_material import batches_of_all_tokens
from kdkit.training.causal_material import next_token_metrics
from kdkit.training.corpus_material import EVALUATION_BATCH_SIZE
from kdkit.training.corpus_material import masked_metrics
from kdkit.training.corpus_settings import CorpusSettings
from kdkit.training.evaluation import make_forward
from kdkit.training.making import check_length
from kdkit.training.run_directory import CONFIG
from kdkit.training.run_directory import RunDirectory
from kdkit.training.run_directory import read_config

# Options of how text is read, which a run's own text has been read by.
HOW_READ = ("column", "one_document", "detokenizer")
READING = (*HOW_READ, "sequence_length", "stride")


def is_about_text(options) -> bool:
    """Whether a model is to be measured on text and not on a task."""
    return options.corpus is not None or _verb(options.model) == "pretrain"


@contextlib.contextmanager
def open_on_text(options):
    """Opens a language model with the text that it is measured on.

    An encoder by masking it, a decoder by the tokens that follow.

    Args:
        options: the parsed options of `kdkit evaluate`. Without `corpus` the
            text is what the run of the model held out.

    Yields:
        A `Measurable` about `corpus`, how it is read, `examples` (rows of
        text) and, for an encoder, `masking`.

    Raises:
        UsageError: if a task is named too, the model has no trained head, or a
            file is missing.
    """
    _reject_what_is_for_tasks(options)
    settings = {}
    if _verb(options.model) == "pretrain":
        settings = read_config(options.model)["corpus"]
    masking = from_dict(Masking, settings.get("masking", {}))
    length = options.sequence_length
    if length is None:
        length = settings.get("sequence_length", 128)
    text = None
    if options.corpus is not None:
        # All of it is measured on: what is held out of what is no matter.
        text = CorpusSettings(
            files=tuple(options.corpus),
            held_out=tuple(options.corpus),
            column=options.column,
            one_document=bool(options.one_document),
            detokenizer=options.detokenizer,
        )
        text.check()
    loaded = models.load_language_model(options.model)
    if not loaded.has_trained_head:
        raise UsageError(
            f"{options.model} has no trained head for masked tokens. Expected "
            "a run of kdkit pretrain."
        )
    check_length(length, loaded.model, "--sequence-length ")
    of_run = {name: settings.get(name) for name in HOW_READ}
    how_read = of_run
    if text is not None:
        how_read = {name: getattr(text, name) for name in HOW_READ}
    if settings and how_read != of_run:
        print(
            f"This text is read with {_in_words(how_read)}; that of "
            f"{options.model} was with {_in_words(of_run)}.",
            flush=True,
        )
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        if text is not None:
            rows = _pack(text, loaded, length, folder, options.stride)
        else:
            directory = pathlib.Path(options.model, "corpus/held_out")
            rows = open_packed(directory)
            if rows is None:
                raise UsageError(
                    f"The text that {options.model} held out is not there any "
                    "more. Pass --corpus FILE."
                )
        forward = make_forward(loaded.model)

        def measure():
            if models.is_causal(loaded.model):
                width = loaded.model.output_shape[-1]
                return next_token_metrics(
                    forward, batches_of_all_tokens(rows, width), rows.num_words
                )
            masker = Masker(masking, loaded.tokenizer)
            return masked_metrics(
                forward,
                masked_evaluation_batches(rows, masker, EVALUATION_BATCH_SIZE),
            )

        about = {
            "corpus": options.corpus or "held_out",
            **how_read,
            "sequence_length": length,
            "stride": options.stride,
            "examples": len(rows),
        }
        if not models.is_causal(loaded.model):
            about["masking"] = dataclasses.asdict(masking)
        run = RunDirectory(pathlib.Path(options.model)) if settings else None
        origin = _held_out_text(settings) if text is None else None
        content = {"data_digest": digest(directory)}
        yield Measurable(
            about, content, measure, loaded.model, run, origin=origin
        )


def _in_words(how_read):
    return ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in how_read.items()
    )


def _held_out_text(settings):
    """What says which text the run of a corpus' settings held out."""
    names = ["held_out", *HOW_READ]
    if not settings.get("held_out"):
        names += ["files", "held_out_every", "max_texts"]
    return {name: settings.get(name) for name in names}


def _pack(text, loaded, length, folder, stride):
    """The rows of all of the text, as a model reads them."""
    if models.is_causal(loaded.model):
        return pack_stream(
            text.texts(held_out=True),
            loaded.tokenizer,
            length,
            folder,
            stride,
            one_document=text.one_document,
            num_words=text.num_words(),
        )
    if stride is not None or text.one_document:
        raise UsageError(
            "--stride and --one-document are for decoders, which read from the "
            "left. Received: an encoder. Leave them out."
        )
    return pack(text.texts(held_out=True), loaded.tokenizer, length, folder)


def _reject_what_is_for_tasks(options):
    names = ["task", "data_dir", "split", "arm", "tokenizer"]
    if options.corpus is None:  # the run's own held-out rows
        names += READING
    given = given_flags(options, names)
    if given:
        raise UsageError(
            "A model is measured on a task or on running text. Received: "
            f"{', '.join(given)} for text. Leave it out."
        )


def _verb(model):
    if not pathlib.Path(model, CONFIG).is_file():
        return None
    return read_config(model).get("verb")
