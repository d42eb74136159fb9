"""Flags that several verbs share, and the parser that verbs have."""

import argparse
import functools
import inspect
import re

from kdkit.errors import UsageError, unknown
from kdkit.models.sizes import POOLINGS

LONGEST = 65536  # tokens; the known families' models read far fewer
LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}")  # model cards contain it


class VerbParser(argparse.ArgumentParser):
    """The words of a verb as options; a mistake is a `UsageError`.

    Args:
        verb: string.
        text: string. The verb's docstring, whose end is `example:`.
        values: dict from the name of a value without a flag to its details,
            with a `metavar`.
        groups: dict from a title to a dict from a name to a flag's details.
        more: string. What may follow in the words. Defaults to `[options]`.
    """

    def __init__(
        self, verb, text, values: dict, groups: dict, more="[options]"
    ):
        about, *example = inspect.cleandoc(text).partition("example:\n")
        names = [details["metavar"] for details in values.values()]
        super().__init__(
            f"kdkit {verb}",
            usage=" ".join(filter(None, ["kdkit", verb, *names, more.strip()])),
            description=about.strip(),
            epilog="".join(example),
            formatter_class=functools.partial(
                argparse.RawDescriptionHelpFormatter,
                max_help_position=26,
                width=80,
            ),
        )
        for name, details in values.items():
            self.add_argument(name, **details)
        for title, flags in groups.items():
            group = self.add_argument_group(title) if title else self
            for name, details in flags.items():
                if not details.keys() & {"action", "choices"}:
                    word = name.rpartition("_")[2].upper()
                    details = {"metavar": word, **details}
                group.add_argument(flag_name(name), **details)

    def error(self, message):
        """Raises a mistake, which `main` prints."""
        text = message.replace(
            "the following arguments are required", "missing"
        )
        raise UsageError(f"{text[:1].upper()}{text[1:]}.")

    def parse_args(self, words=None, namespace=None):
        """Returns the options in words."""
        options, others = self.parse_known_args(words, namespace)
        if others:
            known = map(flag_name, vars(options))
            raise unknown("option", others[0], known)
        return options


def flag(text: str, **details) -> dict:
    """Returns the details of a flag with one value."""
    return {"help": text.replace("%", "%%"), **details}


def many(text: str, **details) -> dict:
    """Returns the details of a flag with one or more values."""
    return flag(text, nargs="+", **details)


def switch(text: str) -> dict:
    """Returns the details of a flag without a value."""
    return flag(text, action="store_true")


def seed(text: str) -> int:
    """Converts a word to a seed."""
    if not (text.isdecimal() and int(text) < 2**32):
        raise argparse.ArgumentTypeError(f"{text!r} is no seed below 2**32")
    return int(text)


def length(text: str) -> int:
    """Converts a word to a length in tokens."""
    if not (text.isdecimal() and 1 <= int(text) <= LONGEST):
        raise argparse.ArgumentTypeError(
            f"expected a number of tokens from 1 to {LONGEST}, received "
            f"{text!r}"
        )
    return int(text)


def license_name(text: str) -> str:
    """Returns a license's identifier, in the form of the Hugging Face Hub."""
    if not LICENSE.fullmatch(text):
        raise argparse.ArgumentTypeError(
            "expected the Hugging Face Hub's identifier of a license, such as "
            f"apache-2.0, mit or cc-by-4.0, received {text!r}"
        )
    return text


TABLE = {
    "train": flag(
        "your own table, instead of --task: a CSV, TSV, JSON lines or Parquet "
        "file, or a folder that Hugging Face datasets saved",
        metavar="FILE",
    ),
    "dev": flag(
        "the table to choose the best epoch on; by default, a tenth of --train "
        "is set aside. For sentence encoders: a table of scored pairs",
        metavar="FILE",
    ),
    "test": flag("the table for --split test", metavar="FILE"),
    "text_column": many(
        "the column with the texts, two for pairs", metavar="COLUMN"
    ),
    "label_column": flag("the column with the labels", metavar="COLUMN"),
    "labels": many(
        "the labels in the order of the teacher's classes, if these are "
        "LABEL_0 and so on, or have other names",
        metavar="NAME",
    ),
    "regression": switch("labels are scores, not classes"),
}
TASK = {
    "task": flag(
        "cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli, race, polyphone "
        "or one of kdkit list; or a TOML file that describes your tables"
    ),
    "data_dir": flag(
        "the folder with the task's data, such as SST-2/, MRPC/ or RACE/. "
        "Defaults to TensorFlow Datasets, which has GLUE.",
        metavar="DIR",
    ),
    **TABLE,
}
TEXT = {
    "corpus": many(
        "running text, one text per line, or tables with --column. For "
        "encoder-decoders, sentences: one file for each of --languages.",
        metavar="FILE",
    ),
    "column": flag("the column with the texts in tables"),
    "one_document": switch(
        "read each file as one document, not one text per line"
    ),
    "detokenizer": flag(
        "first turn a benchmark's tokens back into running text",
        choices=("ptb", "wikitext"),
    ),
}
PAIRS = {
    "pairs": many(
        "pairs of source and target: two files whose lines belong together, "
        "or, with --pair-columns, tables with a header",
        metavar="FILE",
    ),
    "pair_columns": flag(
        "the columns with source and target",
        nargs=2,
        metavar=("SOURCE", "TARGET"),
    ),
    "languages": many(
        "the languages, such as en de: one for each file of --corpus, or "
        "source and target of --pairs",
        metavar="NAME",
    ),
}
BEAMS = {
    "num_beams": flag(
        "the number of beams in beam search. Defaults to 4 for "
        "encoder-decoders. 1 is greedy search.",
        type=int,
        metavar="N",
    ),
    "length_penalty": flag(
        "the exponent of the length penalty: a beam's score is its log "
        "probability divided by its length to this power. Defaults to 1.",
        type=float,
        metavar="P",
    ),
}
MODEL = {
    "arm": flag(
        "the model of a run directory. Defaults to the student. The teacher "
        "may also be outside of the run.",
        choices=("student", "teacher", "control"),
    ),
    "tokenizer": flag(
        "the tokenizer's place, for a file outside a run", metavar="MODEL"
    ),
    "sequence_length": flag(
        "the largest sequence length in tokens. Defaults to the length of "
        "the run, the preset or the task.",
        type=length,
        metavar="N",
    ),
    "pooling": flag(
        "the pooling of an encoder whose directory does not describe it",
        choices=POOLINGS,
    ),
}
EMBEDDINGS = {
    "queries": flag(
        "queries, for retrieval: a table with the columns _id and text, JSON "
        "lines of BEIR, or lines of an id, a tab and a text",
        metavar="FILE",
    ),
    "documents": flag(
        "the documents to find, in the formats of --queries", metavar="FILE"
    ),
    "judgements": flag(
        "which documents are relevant for which query: a table with the "
        "columns query-id, corpus-id and score, or TREC's lines",
        metavar="FILE",
    ),
    "ignore_same_id": switch(
        "ignore the document with the query's id, as in BEIR's ArguAna and "
        "Quora, whose queries are also documents"
    ),
    "bitext": flag(
        "texts and their translations, two files whose lines belong together",
        nargs=2,
        metavar=("SOURCE", "TARGET"),
    ),
    "dimensions": many(
        "also measure the first N dimensions of the vectors, as a Matryoshka "
        "embedder is used",
        type=int,
        metavar="N",
    ),
    "without_texts_of": flag(
        "leave out the examples with a text that this run was trained on. By "
        "default, they are counted, if MODEL is a run's student.",
        metavar="RUN",
    ),
}
VECTORS = {
    "dimensions": flag(
        "the width of an embedder's vectors: only the first N numbers of each "
        "are written. Defaults to all.",
        type=int,
        metavar="N",
    ),
    "texts": many(
        "texts, one per line, on which the files of an embedder are compared "
        "with Keras. Defaults to the run's texts, otherwise to random tokens.",
        metavar="FILE",
    ),
}
LICENSED = flag(
    "the license in the model card, such as apache-2.0. Defaults to that of "
    "the model's and its teachers' checkpoints, if they agree.",
    type=license_name,
    metavar="NAME",
)


def beams(options) -> dict:
    """Returns the given arguments of `kdkit.generation.Beams`."""
    found = {
        "beam_size": options.num_beams,
        "length_penalty": options.length_penalty,
    }
    return {name: one for name, one in found.items() if one is not None}


def require(options, *names) -> None:
    """Requires options that a model needs."""
    missing = [name for name in names if getattr(options, name) is None]
    if missing:
        raise UsageError(f"Missing: {', '.join(map(flag_name, missing))}.")


def reject_given(options, names, where: str) -> None:
    """Refuses an option that would be silently ignored, by its name."""
    given = [name for name in names if getattr(options, name, None)]
    if given:
        raise unread(flag_name(given[0]), where)


def unread(label: str, where: str) -> UsageError:
    """Returns the error for an option that nothing reads."""
    return UsageError(f"{label} is not read {where}.")


def flag_name(name):
    return f"--{name.replace('_', '-')}"
