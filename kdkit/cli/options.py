"""Options that several verbs share."""

import argparse
import pathlib

from kdkit import models
from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.models import PRESETS
from kdkit.models import MassConfig
from kdkit.runs.directory import read_config
from kdkit.runs.directory import read_settings
from kdkit.runs.settings import DistillSettings
from kdkit.runs.settings import PretrainSettings
from kdkit.runs.settings import TeacherSettings
from kdkit.training.model_settings import LARGEST_SEED
from kdkit.training.model_settings import check_seed
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.sentence_settings import SentenceSettings

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


# Of texts that are no sentences.
FOR_OTHERS = ("one_document", "detokenizer")


def trains_encoder_decoder(options) -> bool:
    """Whether what `kdkit pretrain` trains is an encoder-decoder."""
    if options.pairs is not None or options.languages is not None:
        return True
    if options.student in PRESETS:
        return isinstance(PRESETS[options.student].config, MassConfig)
    place = absolute(options.model or options.teacher)
    return place is not None and models.has_encoder_decoder(place)


def sentence_settings(options) -> SentenceSettings | PairSettings:
    """The sentences, or the pairs, to learn from.

    Raises:
        UsageError: if both are named, or options of running text are.
    """
    if (options.pairs is None) == (options.corpus is None):
        raise UsageError(
            "An encoder-decoder is pretrained on sentences, --corpus, and "
            "fine-tuned on pairs, --pairs. Expected one of them. Received: "
            f"{'both' if options.pairs else 'neither'}."
        )
    text, unread = "--corpus", "pair_columns"
    if options.pairs is not None:
        text, unread = "--pairs", "column"
    foreign = given_flags(options, (*FOR_OTHERS, unread))
    if foreign:
        raise UsageError(
            f"{', '.join(foreign)}: not of the {text} of an encoder-decoder. "
            "Leave it out."
        )
    same = {
        "languages": tuple(options.languages or ()),
        "held_out": tuple(map(absolute, options.held_out or ())),
    }
    if options.corpus is not None:
        files = tuple(map(absolute, options.corpus))
        return SentenceSettings(files=files, column=options.column, **same)
    return PairSettings(
        files=tuple(map(absolute, options.pairs)),
        columns=tuple(options.pair_columns or ()),
        **same,
    )


def check_sides(options, sides) -> None:
    """Refuses a side of --pairs that is in another language in --corpus.

    Args:
        options: the parsed options of a verb that takes both.
        sides: list of two strings, or `None`. The languages of --pairs.

    Raises:
        UsageError: with the file and both languages.
    """
    if not (options.corpus and sides):
        return
    known = dict(
        zip(map(located, options.corpus), options.languages, strict=False)
    )
    for file, side in zip(options.pairs, sides, strict=False):
        language = known.get(located(file), side)
        if language != side:
            raise UsageError(
                "--languages begin with that of the source and have that of "
                f"the target next. Received: {' '.join(options.languages)}, by "
                f"which {file} is {language!r} in --corpus and {side!r} in "
                "--pairs. Name the files of --corpus in that order."
            )


VERBS = [
    kind.verb for kind in (DistillSettings, PretrainSettings, TeacherSettings)
]


def settings_of(kind, config):
    """Returns the settings of a run in a file.

    Args:
        kind: `DistillSettings`, `PretrainSettings` or `TeacherSettings`.
        config: string or path of the file, or of the run directory.

    Raises:
        UsageError: if another verb made the run, or as `read_settings`.
    """
    check_verb(config, kind.verb)
    return read_settings(config, kind)


def check_verb(config, expected: str) -> None:
    """Refuses the settings of a run that another verb made.

    Args:
        config: string or path, as for `settings_of`.
        expected: string. The verb that it should be of.

    Raises:
        UsageError: with the verb that takes them.
    """
    verb = read_config(config).get("verb", expected)
    if verb == expected:
        return
    if verb not in VERBS:
        raise UsageError(
            f"{config}: expected the config.json of a run of kdkit {expected}. "
            f"Received one with the verb {shortened(verb)}."
        )
    what = f"a run of kdkit {verb}"
    if is_on_text(config):
        verb, what = "distill", "the steps of a recipe on text"
    wanted = "one on a task" if verb == expected else f"one of kdkit {expected}"
    raise UsageError(
        f"{config} holds {what}. Expected {wanted}. It is made again by: kdkit "
        f"{verb} --config {config} --run-dir RUN"
    )


def is_on_text(config) -> bool:
    """Whether settings are of the last step of a recipe on text alone."""
    return bool(read_config(config).get("steps_before"))


def pretrained_beside(config) -> str:
    """Returns where the encoder is that the run of a distillation began with.

    Args:
        config: string or path, as for `settings_of`, of a teacher's run.
    """
    path = pathlib.Path(config).resolve()
    run = path if path.is_dir() else path.parent
    return str(run.parent / "pretrained_run")
