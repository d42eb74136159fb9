"""Converts options to settings, and refuses those that nothing reads."""

import dataclasses
import pathlib

from kdkit import models
from kdkit.cli.groups import (
    BenchmarkTextOptions,
    CorpusOptions,
    DecoderOptions,
    EmbedderOptions,
    PretrainedModelOptions,
    RecipeOptions,
    SentenceOptions,
    StudentOptions,
    TableOptions,
    TaskOptions,
    TeacherOptions,
    TextOptions,
    TransferOptions,
)
from kdkit.cli.parser import PAGES, declared_options
from kdkit.errors import UsageError, unknown
from kdkit.models import PRESETS, MassConfig
from kdkit.recipes import RECIPES
from kdkit.runs.directory import read_config, read_settings
from kdkit.training.data_settings import CacheSettings
from kdkit.training.sentence_settings import PairSettings, SentenceSettings

# Groups of options that --config and --smoke decide, except for a few options.
DECIDED = (
    TaskOptions, TableOptions, TeacherOptions, StudentOptions, TextOptions,
    CorpusOptions, TransferOptions, BenchmarkTextOptions, SentenceOptions,
    DecoderOptions, EmbedderOptions, PretrainedModelOptions, RecipeOptions,
)  # fmt: skip
READ_BESIDE = {
    "--config": ("recipe", "control"),
    "--smoke": ("recipe", "control", "parity", "model"),
}
# Options that are only read beside another one.
NEEDS = {
    "unlabeled_columns": ("unlabeled",),
    "unlabeled_per_labeled": ("unlabeled",),
    "augment_model": ("augment",),
    "augment_vectors": ("augment_model",),
    "column": ("corpus", "texts"),
    "held_out": ("corpus", "pairs"),
    "pair_columns": ("pairs",),
    "cache_precision": ("cache",),
    "stage": ("recipe",),
    "parity": ("recipe",),
}
# Options that are not read beside another one.
REPLACED = {
    "teacher": "encoder",
    "pretrained": "encoder",
    "num_layers": "general",
    "word_vectors": "general",
    "smoke": "config",
    "quantize": "config",
}


def reject_unread(options, *pages: str) -> None:
    """Refuses an option that a kind of run would silently ignore.

    Args:
        options: the options of a verb that trains.
        *pages: strings. The kinds of run that it may be, keys of
            `kdkit.cli.parser.PAGES`.

    Raises:
        UsageError: for the first such option.
    """
    default = type(options)()
    declared = declared_options(type(options))
    given = {
        name: one
        for name, one in declared.items()
        if getattr(options, name) != getattr(default, name)
    }
    begun = None
    if options.config or options.smoke:
        begun = "--config" if options.config else "--smoke"
    for name, one in given.items():
        if {*pages}.isdisjoint(one.pages):
            raise unread(one.label, f"for {PAGES[pages[0]]}")
        if begun and _is_decided(one, begun):
            raise unread(one.label, f"beside {begun}")
        needed = NEEDS.get(name, ())
        if needed and given.keys().isdisjoint(needed):
            raise unread(one.label, f"without {_flag(needed[0])}")
        if REPLACED.get(name) in given:
            raise unread(one.label, f"beside {_flag(REPLACED[name])}")


def _is_decided(one, begun):
    """Whether --config or --smoke decides what an option says."""
    if one.name == "model" and one.group is not DecoderOptions:
        return True
    return one.group in DECIDED and one.name not in READ_BESIDE[begun]


def require(options, *names) -> None:
    """Requires the options that a new run needs."""
    missing = [_flag(name) for name in names if getattr(options, name) is None]
    if missing:
        raise UsageError(f"Missing: {', '.join(missing)}.")


def reject_given(options, names, where: str) -> None:
    """Refuses an option that would be silently ignored, by its name."""
    given = [name for name in names if getattr(options, name, None)]
    if given:
        raise unread(_flag(given[0]), where)


def unread(label: str, where: str) -> UsageError:
    """Returns the error for an option that nothing reads."""
    return UsageError(f"{label} is not read {where}.")


def _flag(name):
    return f"--{name.replace('_', '-')}"


SHORT = ("epochs", "batch_size", "learning_rate")
STEPS = ("student", "pretrained", "teacher", "general")  # of a chain on text


def all_assignments(settings, options) -> list[str]:
    """The `dotted.field=value` texts of short flags and then `--set`."""
    return [*_short(settings, options), *options.set]


def _short(settings, options):
    found = []
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
        if len(fields) > 1:
            raise _several(name, fields)
        found += fields
    return found


def _several(name, fields):
    """The error for a short flag that could mean several fields."""
    return UsageError(
        f"{_flag(name)} matches {len(fields)} fields of this run. Expected one "
        f"of {', '.join(fields)}."
    )


def for_steps(options):
    """Returns options whose short flags are settings of the steps on text."""
    for name in SHORT:
        if (value := getattr(options, name)) is not None:
            raise _several(
                name, [f"{step}.stages.0.{name}={value}" for step in STEPS]
            )
    if options.max_length is None:
        return options
    length = f"corpus.sequence_length={options.max_length}"
    return dataclasses.replace(options, set=[length, *options.set])


def get_recipe(name):
    """Returns a recipe."""
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    return RECIPES[name]


def cache_settings(options) -> CacheSettings | None:
    """Returns the settings of the teacher's cache, or `None`."""
    if options.cache is None:
        return None
    return CacheSettings(
        located(options.cache), options.cache_precision or "fp32"
    )


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
            f"Expected a part as --shard, such as 1/4. Received: {shard!r}."
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
            f"Split {split!r} has no labels, so it has no metrics."
        )


def trains_encoder_decoder(options) -> bool:
    """Returns whether `kdkit pretrain` trains an encoder-decoder."""
    if options.pairs is not None or options.languages is not None:
        return True
    if options.student in PRESETS:
        return isinstance(PRESETS[options.student].config, MassConfig)
    place = absolute(options.model or options.teacher)
    return place is not None and models.find(place).kind == "encoder_decoder"


def sentence_settings(options) -> SentenceSettings | PairSettings:
    """Returns the settings of the sentences, or of the pairs."""
    if options.pairs is not None:
        reject_given(options, ("corpus", "column"), "beside --pairs")
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
                f"--languages: {file} is {language!r} in --corpus and {side!r} "
                "in --pairs, whose languages come first."
            )


def settings_of(kind, config):
    """Returns the settings of a run in a file."""
    verb = read_config(config).get("verb")
    if verb != kind.verb:
        raise UsageError(
            f"{config} holds a run of kdkit {verb}. Expected one of kdkit "
            f"{kind.verb}."
        )
    return read_settings(config, kind)


def require_same_recipe(options, settings) -> None:
    """Requires that a recipe named beside --config is that of its run."""
    if options.recipe not in (None, settings.recipe):
        raise UsageError(
            f"{options.config} holds a run of recipe {settings.recipe!r}. "
            f"Received: {options.recipe!r}."
        )


def is_on_text(config) -> bool:
    """Returns whether settings are the last step of a recipe on text alone."""
    return bool(read_config(config).get("steps_before"))


def pretrained_beside(config) -> str:
    """Returns the place of the encoder that a distillation's run began with."""
    path = pathlib.Path(config).resolve()
    run = path if path.is_dir() else path.parent
    return str(run.parent / "pretrained_run")
