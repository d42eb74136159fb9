"""Options that several verbs share."""

import argparse
import pathlib

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.training.seeds import LARGEST_SEED
from kdkit.training.seeds import check_seed

LONGEST = 65536  # tokens of a row; models of the known families read far fewer


def a_seed(text: str) -> int:
    """The type of options that are seeds."""
    try:
        seed = int(text)
        check_seed(seed)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected a seed from 0 to {LARGEST_SEED}, received {text!r}"
        ) from error
    return seed


def a_length(text: str) -> int:
    """The type of options that are lengths in tokens."""
    try:
        length = int(text)
    except ValueError:
        length = 0
    if not 1 <= length <= LONGEST:
        raise argparse.ArgumentTypeError(
            f"expected a number of tokens from 1 to {LONGEST}, received "
            f"{shortened(text)}"
        )
    return length


def add_task(parser, required=False):
    """Adds `--task` and `--data-dir`."""
    parser.add_argument(
        "--task",
        required=required,
        help="cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli, sentiment "
        "(generated), race, polyphone and others: see kdkit list",
    )
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="the folder that holds SST-2/, MRPC/, RACE/ ... as the data sets "
        "come; without it, TensorFlow Datasets, which has GLUE",
    )


def add_texts(parser):
    """Adds `--corpus` and `--column`."""
    parser.add_argument(
        "--corpus",
        nargs="+",
        metavar="FILE",
        help="running text: files of one text a line, or tables with a header "
        "(then with --column); for encoder-decoders sentences, a file for "
        "each of --languages",
    )
    parser.add_argument(
        "--column",
        help="the column of tab-separated tables that holds the texts",
    )


def add_corpus(parser):
    """Adds `--corpus`, `--column` and `--held-out`."""
    add_texts(parser)
    parser.add_argument(
        "--held-out",
        nargs="+",
        metavar="FILE",
        help="text to measure on; unless set, every 100th text of --corpus, "
        "which is then not trained on",
    )


def add_benchmark_text(parser):
    """Adds `--one-document` and `--detokenizer`."""
    parser.add_argument(
        "--one-document",
        action="store_const",
        const=True,
        help="for decoders: the lines of a file follow each other, as those of "
        "WikiText and Penn Treebank do",
    )
    parser.add_argument(
        "--detokenizer",
        choices=["ptb", "wikitext"],
        help="make running text of a benchmark's words first",
    )


def add_sentences(parser):
    """Adds `--pairs`, `--pair-columns` and `--languages`."""
    parser.add_argument(
        "--pairs",
        nargs="+",
        metavar="FILE",
        help="for encoder-decoders: texts and what is to be written of them, "
        "two files whose lines belong together, or tables with a header or "
        "tfds:NAME:SPLIT of TensorFlow Datasets (then with --pair-columns)",
    )
    parser.add_argument(
        "--pair-columns",
        nargs=2,
        metavar=("SOURCE", "TARGET"),
        help="the columns or features of these",
    )
    parser.add_argument(
        "--languages",
        nargs="+",
        metavar="NAME",
        help="for encoder-decoders: the language of each file of --corpus, or "
        "of the two sides of --pairs, such as en de; with both, the source's "
        "first, then the target's, then those of further files",
    )


def add_beams(parser):
    """Adds `--num-beams` and `--length-penalty`."""
    parser.add_argument(
        "--num-beams",
        type=int,
        metavar="N",
        help="texts that a beam search keeps open; of an encoder-decoder 4 "
        "unless set, and 1 is greedy",
    )
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="P",
        help="for encoder-decoders: a text's score is its log probability over "
        "its length to this power; 1 unless set",
    )


def add_unlabeled(parser):
    """Adds `--unlabeled`, its columns and its proportion."""
    parser.add_argument(
        "--unlabeled",
        nargs="+",
        metavar="FILE",
        help="text for the teacher to label: files of one text a line, or "
        "tables with a header (then with --unlabeled-columns); rows of dev and "
        "test are left out",
    )
    parser.add_argument(
        "--unlabeled-columns",
        nargs="+",
        metavar="NAME",
        help="the columns of these tables that hold the text, two for pairs",
    )
    parser.add_argument(
        "--unlabeled-per-labeled",
        type=float,
        metavar="R",
        help="rows of it for each labelled one in an epoch; 1 unless set",
    )


def add_cache(parser):
    """Adds `--cache` and `--cache-precision`."""
    parser.add_argument(
        "--cache",
        metavar="DIR",
        help="keep the teacher's outputs there, and run it only over rows of "
        "which there are none; shared by runs with the same teacher",
    )
    parser.add_argument(
        "--cache-precision",
        choices=["fp32", "bf16", "int8"],
        help="how they are kept; fp32 unless set",
    )


def add_teacher_file(parser):
    """Adds `--teacher-file`."""
    parser.add_argument(
        "--teacher-file",
        metavar="FILE",
        help="fill the cache with the logits of this exported file of the "
        "teacher (.tflite, .onnx or SavedModel); its agreement with the "
        "teacher is measured first and stored with the cache",
    )


def add_run(
    parser, seed=True, strategies=("mirrored", "multi_worker"), required=True
):
    """Adds what all runs have: directory, seed, settings, devices, smoke."""
    parser.add_argument(
        "--run-dir",
        required=required,
        metavar="RUN",
        help="where the run is kept, or goes on",
    )
    if seed:
        parser.add_argument("--seed", type=a_seed, help="0 unless set")
    add_settings(parser)
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="begin with the settings in a run's config.json",
    )
    parser.add_argument(
        "--mixed-precision",
        choices=["bfloat16", "float16"],
        help="what this run trains computes in it; it is measured and kept in "
        "float32 (on CPUs with AMX faster with --set jit_compile=false)",
    )
    add_devices(parser, strategies)
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="tiny models on generated sentences, in under a minute",
    )


def add_force(parser):
    """Adds `--force`."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="go on where the first checks say that the run would be ruined "
        "(see kdkit doctor)",
    )


def add_devices(parser, strategies):
    """Adds `--strategy` and `--devices`."""
    parser.add_argument(
        "--strategy",
        choices=strategies,
        help="train on several devices, among which the rows of each batch are "
        "divided: mirrored for all GPUs of this machine, or else the logical "
        "CPUs of --devices; multi_worker for those of several machines, one "
        "process on each, started by srun or with TF_CONFIG; "
        "sets jit_compile=false",
    )
    parser.add_argument(
        "--devices",
        type=int,
        metavar="N",
        help="with --strategy: the first N GPUs, or without GPUs the CPU as N "
        "logical devices; all GPUs unless set",
    )


def add_shard(parser):
    """Adds `--shard`."""
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="do part I of N, counted from 1, which N processes share; "
        "launcher for the part that TF_CONFIG, srun or torchrun says",
    )


def part_of(shard):
    """The part of the work that `--shard` names: i, from 0, and n; or `None`.

    Raises:
        UsageError: if it names none.
    """
    from kdkit.training.cluster import part_of_launcher

    if shard is None:
        return None
    if shard == "launcher":
        return part_of_launcher()
    which, _, count = shard.partition("/")
    if not (
        which.isdecimal()
        and count.isdecimal()
        and 1 <= int(which) <= int(count)
    ):
        raise UsageError(
            "--shard is a part of as many, such as 1/4 to 4/4, or launcher. "
            f"Received: {shard!r}."
        )
    return int(which) - 1, int(count)


def add_settings(parser):
    """Adds `--set`."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="change a setting, such as stages.0.epochs=3; may be repeated",
    )


def given_flags(options, names) -> list[str]:
    """Those of the named options that were given, as they are typed."""
    return [
        f"--{name.replace('_', '-')}"
        for name in names
        if getattr(options, name) is not None
    ]


def absolute(place):
    """An existing path made absolute; other names (presets) as they are."""
    if place is None or not pathlib.Path(place).exists():
        return place
    return str(pathlib.Path(place).resolve())


def located(place):
    """A path made absolute, whether something is there yet or not."""
    return str(pathlib.Path(place).resolve())


def add_model_choice(parser):
    """Adds which model of a run, its tokenizer, and the length."""
    parser.add_argument(
        "--arm",
        choices=["student", "teacher", "control"],
        help="which model of a run directory; its student unless set",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="MODEL",
        help="where the tokenizer is, for a file outside of a run",
    )
    parser.add_argument(
        "--sequence-length",
        type=a_length,
        metavar="N",
        help="longest sequence in tokens; that of the run, of the preset or of "
        "the task unless set",
    )


def add_measured(parser):
    """Adds what models are measured on: a split of a task, or text."""
    add_task(parser)
    add_model_choice(parser)
    parser.add_argument("--split", help="dev unless set")
    add_texts(parser)
    add_benchmark_text(parser)
    add_sentences(parser)
    add_beams(parser)
    parser.add_argument(
        "--stride",
        type=int,
        metavar="N",
        help="of a decoder: begin each row so many tokens after the last one, "
        "so that more stands before what is predicted; a whole row unless set",
    )


def require_labels(encoded, split):
    """Refuses a split without labels, such as GLUE's test sets."""
    if encoded.labels is None:
        raise UsageError(
            f"Split {split!r} has no labels, so it has no metrics. Use "
            "--split dev."
        )
