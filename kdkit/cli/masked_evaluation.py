"""The work of `kdkit evaluate` on running text."""

import pathlib
import tempfile

from kdkit import models
from kdkit.cli.options import given_flags
from kdkit.data import Corpus
from kdkit.data import Masker
from kdkit.data import Masking
from kdkit.data import open_packed
from kdkit.data import pack
from kdkit.errors import UsageError
from kdkit.settings import from_dict
from kdkit.training.corpus_material import masked_metrics
from kdkit.training.evaluation import make_forward
from kdkit.training.making import check_length
from kdkit.training.run_directory import CONFIG
from kdkit.training.run_directory import read_config


def is_about_text(options) -> bool:
    """Whether a model is to be measured on text and not on a task."""
    return options.corpus is not None or _verb(options.model) == "pretrain"


def evaluate_on_text(options) -> dict:
    """Masks text and measures a masked-language model on it.

    Args:
        options: the parsed options of `kdkit evaluate`. Without `corpus` the
            text is what the run of the model held out.

    Returns:
        A dict with `corpus`, `examples` (rows of text) and `metrics`.

    Raises:
        UsageError: if a task is named too, the model has no trained head for
            masked tokens, or a file is missing.
    """
    _reject_what_is_for_tasks(options)
    settings = {}
    if _verb(options.model) == "pretrain":
        settings = read_config(options.model)["corpus"]
    masking = from_dict(Masking, settings.get("masking", {}))
    length = options.sequence_length or settings.get("sequence_length", 128)
    if options.corpus is not None:
        corpus = Corpus(tuple(options.corpus), options.column)
        corpus.check()
    loaded = models.load_masked_lm(options.model)
    if not loaded.has_trained_head:
        raise UsageError(
            f"{options.model} has no trained head for masked tokens. Expected "
            "a run of kdkit pretrain."
        )
    check_length(length, loaded.model, "--sequence-length ")
    with tempfile.TemporaryDirectory() as folder:
        if options.corpus is not None:
            rows = pack(corpus.texts(), loaded.tokenizer, length, folder)
        else:
            rows = open_packed(pathlib.Path(options.model, "corpus/held_out"))
            if rows is None:
                raise UsageError(
                    f"The text that {options.model} held out is not there any "
                    "more. Pass --corpus FILE."
                )
        metrics = masked_metrics(
            make_forward(loaded.model), rows, Masker(masking, loaded.tokenizer)
        )
        return {
            "corpus": options.corpus or "held_out",
            "examples": len(rows),
            "metrics": metrics,
        }


def _reject_what_is_for_tasks(options):
    names = ["task", "data_dir", "split", "arm", "tokenizer"]
    if options.corpus is None:  # the run's own held-out rows
        names += ["column", "sequence_length"]
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
