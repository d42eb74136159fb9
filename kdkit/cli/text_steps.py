"""Chains of runs on text from the options of `kdkit distill`."""

import argparse
import dataclasses
import pathlib

from kdkit.cli.choosing import corpus_settings
from kdkit.cli.options import (
    absolute,
    for_steps,
    given_flags,
    located,
    require_same_sides,
    sentence_settings,
    settings_of,
)
from kdkit.cli.resolving import (
    cache_settings,
    reject_unused_sizes,
    with_strategy,
)
from kdkit.cli.task_data import table_flags
from kdkit.errors import UsageError
from kdkit.models import PRESETS
from kdkit.runs import smoke
from kdkit.runs.pipeline import Pipeline, language_model_pipeline
from kdkit.runs.settings import PretrainSettings
from kdkit.training.data_settings import CorpusSettings
from kdkit.training.model_settings import ModelSettings, model_settings

# Options for only these families.
OF_GPT2 = ("task_text", "one_document", "detokenizer")
OF_MASS = ("pairs", "pair_columns", "languages")
OPTIONS = (
    *("decoder", "tokenizer", "vocabulary_size", "task_held_out"),
    *OF_GPT2,
    *OF_MASS,
)
BESIDE_SMOKE = (
    *OPTIONS,
    *("corpus", "column", "held_out", "student"),
    *("pretrained", "teacher", "general"),
)
OVERRULED = (
    "recipe", "task", "data_dir", "teacher", "student", "pretrained", "corpus",
    "column", "held_out", "general", "mixed_precision", "strategy",
)  # fmt: skip
OF_TASKS = (
    "task", "data_dir", "encoder", "teacher_weights", "num_layers",
    "word_vectors", "unlabeled", "unlabeled_columns", "unlabeled_per_labeled",
    "augment", "augment_model", "augment_vectors",
    "stages", "parity", "config",
)  # fmt: skip


def text_pipeline(recipe, options) -> Pipeline:
    """Returns the runs that the options describe, with `--set` applied."""
    _reject(recipe, options)
    run_dir = located(options.run_dir)
    recipe = recipe.for_families[options.model]
    caches = _caches(options)
    if options.smoke:
        return _with_settings(smoke.on_text(recipe, run_dir, caches), options)
    places = {
        "pretrained": absolute(options.pretrained),
        "teacher": options.teacher and absolute(options.teacher[0]),
        "general": options.general and located(options.general),
    }
    given = {name: place for name, place in places.items() if place}
    makes_pretrained = "pretrained" not in given and (
        "teacher" not in given or "general" not in given
    )
    _require(
        options,
        {"pretrained": makes_pretrained, "general": "general" not in given},
    )
    make_text = _pairs if options.model == "mass" else _running_text
    text, corpus = make_text(options)
    first = {}
    if makes_pretrained:
        first = {
            "teacher": _decoder(options.decoder),
            "tokenizer": absolute(options.tokenizer),
            "vocabulary_size": options.vocabulary_size,
        }
    return _with_settings(
        language_model_pipeline(
            recipe,
            run_dir,
            corpus,
            text,
            student=options.student and model_settings(options.student),
            given=given,
            caches=caches,
            **first,
        ),
        options,
    )


def repeated_pipeline(options) -> Pipeline:
    """The runs of a `config.json`, with `--seed` and `--set` applied."""
    given = given_flags(options, OVERRULED)
    if given:
        raise UsageError(
            f"{', '.join(given)} clashes with --config, which decides that "
            "already. Remove it, or change settings with --set."
        )
    options = for_steps(options)
    settings = settings_of(PretrainSettings, options.config)
    moved = Pipeline(settings, options.run_dir).moved(located(options.run_dir))
    pipeline = Pipeline(moved.settings, options.run_dir)
    if options.seed is not None:
        names = [step.name for step in pipeline.steps]
        pipeline = pipeline.with_values(
            f"{name}.seed={options.seed}"
            for name in names
            if name in ("general", "student")
        )
    return pipeline.with_values(options.set)


def _caches(options):
    """The caches of the steps. Each step has another teacher."""
    cache = cache_settings(options)
    if cache is None:
        return {}
    steps = ("student",) if options.model == "mass" else ("general", "student")
    return {
        name: dataclasses.replace(
            cache, directory=str(pathlib.Path(cache.directory, name))
        )
        for name in steps
    }


def _running_text(options):
    """The task's text and the general text for a decoder."""
    text = CorpusSettings(
        files=tuple(map(absolute, options.task_text)),
        held_out=tuple(map(absolute, options.task_held_out or ())),
        one_document=bool(options.one_document),
        detokenizer=options.detokenizer,
    )
    # The options for reading lines are for the task's text.
    plain = {"one_document": None, "detokenizer": None}
    corpus = argparse.Namespace(**{**vars(options), **plain})
    return text, corpus_settings(corpus) if options.corpus else None


def _pairs(options):
    """The pairs and the sentences for an encoder-decoder."""
    of_pairs = {
        "corpus": None,
        "column": None,
        "held_out": options.task_held_out,
    }
    of_sentences = {"pairs": None, "pair_columns": None}
    text, corpus = (
        argparse.Namespace(**{**vars(options), **changes})
        for changes in (of_pairs, of_sentences)
    )
    # A language may have several files, and --corpus may have more languages
    # than the pairs, whose two languages come first.
    sides = list(dict.fromkeys(options.languages or ()))
    text.languages = (sides[:2] if options.corpus else sides) or None
    require_same_sides(options, text.languages)
    return (
        sentence_settings(text),
        sentence_settings(corpus) if options.corpus else None,
    )


def _task_option(options):
    return "--pairs" if options.model == "mass" else "--task-text"


def _decoder(place):
    """The first step's model: a preset with random weights, or a checkpoint."""
    if place in PRESETS:
        return model_settings(place)
    return ModelSettings(checkpoint=absolute(place))


def _with_settings(pipeline, options):
    """Applies `--set`, `--seed`, `--mixed-precision` and `--strategy`."""
    last = pipeline.settings
    reject_unused_sizes(last, options.set)
    if options.seed is not None:
        last = dataclasses.replace(last, seed=options.seed)
    if options.mixed_precision is not None:
        last = dataclasses.replace(
            last, dtype_policy=f"mixed_{options.mixed_precision}"
        )
    if options.strategy is not None:
        last = with_strategy(last, options.strategy)
    pipeline = Pipeline(last, options.run_dir).with_values(options.set)
    return pipeline.with_shared_settings().with_values(options.set)


def _reject(recipe, options):
    if options.model not in recipe.for_families:
        models = ("bert", *recipe.for_families)
        raise UsageError(
            f"--model {options.model}: recipe {recipe.name!r} is for encoders"
            f"{''.join(f', {name}' for name in recipe.for_families)}. Expected "
            f"--model {' or '.join(models)}."
        )
    wrong = [*given_flags(options, OF_TASKS), *table_flags(options)]
    wrong += given_flags(
        options, OF_GPT2 if options.model == "mass" else OF_MASS
    )
    if options.control:
        wrong.append("--control")
    if options.teacher is not None and len(options.teacher) > 1:
        wrong.append("a second --teacher")
    if wrong:
        raise UsageError(
            f"{', '.join(wrong)} is not for --model {options.model}, which "
            f"learns from --corpus and {_task_option(options)} alone. Remove "
            "it."
        )
    given = given_flags(options, BESIDE_SMOKE) if options.smoke else []
    if given:
        raise UsageError(
            f"{', '.join(given)} clashes with --smoke, which decides that "
            "already. Remove it, or change settings with --set."
        )


def _require(options, made):
    """Requires the options that the steps need."""
    missing = []
    if (options.pairs or options.task_text) is None:
        missing.append(f"{_task_option(options)}, the task's text")
    if made["pretrained"] and options.decoder is None:
        missing.append(
            "--decoder, the teacher to pretrain, or --pretrained, an "
            "existing one"
        )
    needs_corpus = made["pretrained"] or made["general"]
    if needs_corpus and options.corpus is None:
        missing.append("--corpus, the text of pretraining")
    if missing:
        raise UsageError(
            f"Missing: {'; '.join(missing)}. Or try it on generated data with "
            "--smoke."
        )
    unused = []
    if not made["pretrained"]:
        unused += given_flags(
            options, ("decoder", "tokenizer", "vocabulary_size")
        )
    if not needs_corpus:
        unused += given_flags(options, ("corpus", "column", "held_out"))
    if not made["general"]:
        unused += given_flags(options, ("student",))
    if unused:
        raise UsageError(
            f"{', '.join(unused)} has no effect, because another option "
            "already provides that step. Remove it."
        )
