"""Validates combinations of options, and converts them to settings."""

import contextlib
import dataclasses
import functools
import pathlib

from kdkit import models
from kdkit.cli.groups import (
    BenchmarkTextOptions,
    CorpusOptions,
    DecoderOptions,
    PretrainedModelOptions,
    SentenceOptions,
    StudentOptions,
    TableOptions,
    TaskOptions,
    TeacherOptions,
    TextOptions,
    TransferOptions,
)
from kdkit.cli.parser import given_flags, names_in
from kdkit.cli.task_data import names_data, validate_data
from kdkit.errors import UsageError, all_mistakes, shortened, suggestion
from kdkit.models import PRESETS, MassConfig
from kdkit.recipes import RECIPES
from kdkit.recipes.quantization import quantization_stage
from kdkit.runs import smoke
from kdkit.runs.directory import read_config, read_settings
from kdkit.runs.settings import (
    DistillSettings,
    PretrainSettings,
    TeacherSettings,
)
from kdkit.settings import override
from kdkit.tasks import TASKS, get_task
from kdkit.training.data_settings import CacheSettings
from kdkit.training.sentence_settings import PairSettings, SentenceSettings

# Options that --config and --smoke decide already.
ON_TASKS = (
    TaskOptions, TableOptions, TeacherOptions, StudentOptions, TextOptions,
    CorpusOptions, TransferOptions,
)  # fmt: skip
SENTENCES = (BenchmarkTextOptions, SentenceOptions)
OF_TEXT = (TextOptions, CorpusOptions, *SENTENCES, PretrainedModelOptions)


LABELS = {"task": "--task (or --train, your own table)"}
# Groups of options that need the first one.
NEEDED = (
    ("unlabeled", "unlabeled_columns", "unlabeled_per_labeled"),
    ("augment", "augment_model", "augment_vectors"),
    ("augment_model", "augment_vectors"),
    ("corpus", "column", "held_out"),
)


def validate_teacher(options, checks_fields: bool = False) -> None:
    """Validates the options of `kdkit train-teacher`, and its tables."""
    stand_in = functools.partial(_same, smoke.TEACHER)
    with _together(options, stand_in, checks_fields) as check:
        with check():
            _reject_clashes(options, (TaskOptions, TableOptions), "model")
        if not (options.config or options.smoke):
            with check():
                validate_data(options)
            with check():
                _require(options, "task", "model")


def validate_pretraining(options, checks_fields: bool = False) -> None:
    """Validates the options of `kdkit pretrain`, without reading files."""
    stand_in = functools.partial(_same, smoke.PRETRAINING)
    with _together(options, stand_in, checks_fields) as check:
        with check():
            _reject_clashes(options, OF_TEXT)
        if options.pairs is None:
            with check():
                _require(options, "corpus")
        with check():
            if (options.recipe is None) != (options.teacher is None):
                raise UsageError(
                    "--recipe and --teacher go together. Received: only "
                    f"{'--recipe' if options.teacher is None else '--teacher'}."
                )
        with check():
            if options.recipe is not None:
                get_recipe(options.recipe)
            else:
                reject_beside(options, "--recipe", "parity", "stage")
        with check():
            cache_settings(options)


def validate_distillation(options, checks_fields: bool = False) -> None:
    """Validates the options of `kdkit distill`, and its tables."""
    stand_in = functools.partial(_smoke_settings, options)
    is_new = not (options.config or options.smoke)
    with _together(options, stand_in, checks_fields) as check:
        if options.recipe is not None or options.config is None:
            with check():
                get_recipe(options.recipe)
        with check():
            reject_quantization(options)
        if options.model != "bert":
            return
        with check():
            reject_text_options(options)
        with check():
            _reject_clashes(options, ON_TASKS, "stages")
        if is_new:
            with check():
                require_one_source(options)
            with check():
                validate_data(options)
            with check():
                needed = "teacher" if options.encoder is None else "encoder"
                _require(options, "task", needed)
            for other, *names in NEEDED:
                if getattr(options, other) is None:
                    with check():
                        flag = f"--{other.replace('_', '-')}"
                        reject_beside(options, flag, *names)
        with check():
            cache_settings(options)


def reject_quantization(options):
    """Rejects `--quantize` where it has no effect."""
    other = "--config" if options.config else f"--model {options.model}"
    if getattr(options, "quantize", None) is not None and (
        options.config or options.model != "bert"
    ):
        raise UsageError(
            "--quantize adds a stage to a recipe for encoders. Received: "
            f"{other}. Remove --quantize, or {other}."
        )


@contextlib.contextmanager
def _together(options, stand_in, checks_fields):
    """Collects mistakes and, if there are any, also mistakes in `--set`."""
    problems = []
    try:
        with all_mistakes() as check:
            yield check
    except UsageError as error:
        problems.append(str(error))
    if problems or checks_fields:
        try:
            settings = stand_in()
            if settings is not None:
                fields = _fields_of(type(settings), options.set)
                override(settings, [*_short(settings, options), *fields])
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError("\n".join(problems))


def _same(settings):
    return settings


def _smoke_settings(options):
    """The settings of a recipe's smoke run, with the run's stages."""
    is_on_task = options.model == "bert" and not options.config
    if options.recipe not in RECIPES or not is_on_task:
        return None
    recipe = RECIPES[options.recipe]
    settings = smoke.distillation(recipe, options.parity)
    if options.smoke:
        return settings
    task = get_task(options.task if options.task in TASKS else "sst2")
    stages = recipe.stages_for(task, options.parity)
    chosen = [one for one in stages if one.name in (options.stages or ())]
    changes = {"stages": tuple(chosen) or stages}
    precision = getattr(options, "quantize", None)
    if precision is not None:
        added = quantization_stage(precision, task, stages)
        changes["stages"] += (added,)
    if not any(stage.data == "corpus" for stage in changes["stages"]):
        changes["corpus"] = None
    return dataclasses.replace(settings, **changes)


def _fields_of(kind, assignments):
    """The assignments whose fields exist whatever the run's models are."""
    known = {field.name for field in dataclasses.fields(kind)}
    found = []
    for one in assignments:
        first, _, rest = one.partition("=")[0].partition(".")
        if first in ("stages", "data") or first not in known or not rest:
            found.append(one)
    return found


SHORT = ("epochs", "batch_size", "learning_rate")


def all_assignments(settings, options) -> list[str]:
    """The `dotted.field=value` texts of short flags and then `--set`."""
    return [*_short(settings, options), *options.set]


def _short(settings, options):
    found, problems = [], []
    stages = [f"stages.{stage.name}" for stage in settings.stages]
    texts = [
        name
        for name in ("data", "corpus")
        if getattr(settings, name, None) is not None
    ]
    for name, field, places in (
        *((name, name, stages) for name in SHORT),
        ("max_length", "sequence_length", texts),
    ):
        value = getattr(options, name)
        if value is None:
            continue
        fields = [f"{place}.{field}={value}" for place in places]
        if len(fields) == 1:
            found += fields
        else:
            (flag,) = given_flags(options, (name,))
            problems.append(
                f"{flag} matches {len(fields)} fields of this run. Expected "
                f"one of {', '.join(fields)}. Received: {flag} {value}."
            )
    if problems:
        raise UsageError("\n".join(problems))
    return found


def for_steps(options):
    """Returns options whose short flags are settings of the steps on text."""
    problems = [
        f"{flag} matches 4 fields of this run, one for each step. Expected "
        f"student.stages.0.{name}={getattr(options, name)}, or pretrained, "
        "teacher or general instead of student."
        for name in SHORT
        for flag in given_flags(options, (name,))
    ]
    if problems:
        raise UsageError("\n".join(problems))
    if options.max_length is None:
        return options
    length = f"corpus.sequence_length={options.max_length}"
    return dataclasses.replace(options, set=[length, *options.set])


def reject_beside(options, needed, *names):
    """Rejects options that need another one."""
    given = given_flags(options, names)
    if given:
        verb = "needs" if len(given) == 1 else "need"
        raise UsageError(
            f"{' and '.join(given)} {verb} {needed}. Received: none."
        )


def reject_text_options(options) -> None:
    """Rejects options for models on text."""
    names = names_in(DecoderOptions, *SENTENCES)
    given = given_flags(
        options,
        [name for name in names if name != "model" and hasattr(options, name)],
    )
    if given:
        raise UsageError(
            f"{', '.join(given)}: for decoders and encoder-decoders. Also "
            "pass --model gpt2, --model llama3 or --model mass, or remove it."
        )


def require_one_source(options) -> None:
    """Rejects options that clash with --encoder."""
    given = given_flags(
        options,
        ("teacher", "teacher_weights", "pretrained", "cache"),
    )
    if options.encoder is not None and given:
        raise UsageError(
            "--encoder trains the teachers in this run, and "
            f"{', '.join(given)} is for existing teachers. Remove one of "
            "them."
        )


def get_recipe(name):
    """Returns a recipe."""
    if name is None:
        raise UsageError(
            "Missing: RECIPE (see kdkit list), or --config, the config.json of "
            "a run to repeat."
        )
    if name not in RECIPES:
        raise UsageError(
            f"Unknown recipe. Expected one of {sorted(RECIPES)}. Received: "
            f"{name!r}.{suggestion(name, RECIPES)}"
        )
    return RECIPES[name]


def _reject_clashes(options, groups, *names):
    """Rejects options that --config or --smoke would silently override."""
    source = "--config" if options.config else "--smoke"
    names = [*names_in(*groups), *names]
    if options.config and hasattr(options, "parity"):
        names.append("parity")
    given = given_flags(
        options, [one for one in names if getattr(options, one) is not False]
    )
    if options.config and options.smoke:
        given.append("--smoke")
    if given and (options.config or options.smoke):
        raise UsageError(
            f"{', '.join(given)} clashes with {source}, which decides that "
            "already. Remove it, or change settings with --set."
        )


def _require(options, *names):
    if options.config or options.smoke:
        return
    missing = [
        LABELS.get(name, f"--{name.replace('_', '-')}")
        for name in names
        if getattr(options, name) is None
    ]
    if LABELS["task"] in missing and names_data(options):
        missing.remove(LABELS["task"])
    if missing:
        raise UsageError(
            f"Missing: {', '.join(missing)}. Or try it on generated data with "
            "--smoke."
        )


def cache_settings(options) -> CacheSettings | None:
    """Returns the settings of the teacher's cache, or `None`."""
    if options.cache is not None:
        return CacheSettings(
            located(options.cache), options.cache_precision or "fp32"
        )
    reject_beside(options, "--cache", "cache_precision")
    return None


def shard_part(shard):
    """Returns the part of `--shard`: i, from 0, and n; or `None`."""
    if shard is None:
        return None
    which, _, count = shard.partition("/")
    if not (
        which.isdecimal()
        and count.isdecimal()
        and 1 <= int(which) <= int(count)
    ):
        raise UsageError(
            f"--shard must be a part, such as 1/4 to 4/4. Received: {shard!r}."
        )
    return int(which) - 1, int(count)


def absolute(place):
    """Makes an existing path absolute; returns other names unchanged."""
    if place is None or not pathlib.Path(place).exists():
        return place
    return str(pathlib.Path(place).resolve())


def located(place):
    """Makes a path absolute, whether it exists or not."""
    return str(pathlib.Path(place).resolve())


def require_labels(encoded, split):
    """Requires that a split has labels, unlike GLUE's test sets."""
    if encoded.labels is None:
        raise UsageError(
            f"Split {split!r} has no labels, so it has no metrics. Use "
            "--split dev."
        )


# Options for running text.
FOR_OTHERS = ("one_document", "detokenizer")


def trains_encoder_decoder(options) -> bool:
    """Returns whether `kdkit pretrain` trains an encoder-decoder."""
    if options.pairs is not None or options.languages is not None:
        return True
    if options.student in PRESETS:
        return isinstance(PRESETS[options.student].config, MassConfig)
    place = absolute(options.model or options.teacher)
    return place is not None and models.has_encoder_decoder(place)


def sentence_settings(options) -> SentenceSettings | PairSettings:
    """Returns the settings of the sentences, or of the pairs."""
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
            f"{', '.join(foreign)} is not for an encoder-decoder's {text}. "
            "Remove it."
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


def require_same_sides(options, sides) -> None:
    """Rejects a side of --pairs that is in another language in --corpus."""
    if not (options.corpus and sides):
        return
    known = dict(
        zip(map(located, options.corpus), options.languages, strict=False)
    )
    for file, side in zip(options.pairs, sides, strict=False):
        language = known.get(located(file), side)
        if language != side:
            raise UsageError(
                "--languages must begin with the languages of source and "
                f"target. Received: {' '.join(options.languages)}, so {file} "
                f"is {language!r} in --corpus and {side!r} in --pairs. Pass "
                "the files of --corpus in that order."
            )


VERBS = [
    kind.verb for kind in (DistillSettings, PretrainSettings, TeacherSettings)
]


def settings_of(kind, config):
    """Returns the settings of a run in a file."""
    require_verb(config, kind.verb)
    return read_settings(config, kind)


def require_verb(config, expected: str) -> None:
    """Rejects the settings of another verb's run."""
    verb = read_config(config).get("verb", expected)
    if verb == expected:
        return
    if verb not in VERBS:
        raise UsageError(
            f"{config}: expected the config.json of a run of kdkit {expected}. "
            f"Received: the verb {shortened(verb)}."
        )
    what = f"a run of kdkit {verb}"
    if is_on_text(config):
        verb, what = "distill", "the steps of a recipe on text"
    wanted = "one on a task" if verb == expected else f"one of kdkit {expected}"
    raise UsageError(
        f"{config} holds {what}. Expected {wanted}. To repeat it, run: kdkit "
        f"{verb} --config {config} --run-dir RUN"
    )


def is_on_text(config) -> bool:
    """Returns whether settings are the last step of a recipe on text alone."""
    return bool(read_config(config).get("steps_before"))


def pretrained_beside(config) -> str:
    """Returns the place of the encoder that a distillation's run began with."""
    path = pathlib.Path(config).resolve()
    run = path if path.is_dir() else path.parent
    return str(run.parent / "pretrained_run")
