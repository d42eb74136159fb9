"""Chains of runs on text from the options of `kdkit distill`."""

import argparse
import dataclasses
import pathlib

from kdkit.cli.choosing import corpus_settings
from kdkit.cli.options import (
    absolute,
    for_steps,
    located,
    reject_given,
    reject_unread,
    require,
    require_same_recipe,
    require_same_sides,
    sentence_settings,
    settings_of,
)
from kdkit.cli.resolving import (
    cache_settings,
    reject_unused_sizes,
    with_strategy,
)
from kdkit.errors import unknown
from kdkit.models import PRESETS
from kdkit.runs import smoke
from kdkit.runs.pipeline import Pipeline, language_model_pipeline
from kdkit.runs.settings import PretrainSettings
from kdkit.training.data_settings import CorpusSettings
from kdkit.training.model_settings import ModelSettings, model_settings


def text_pipeline(recipe, options) -> Pipeline:
    """Returns the runs that the options describe, with `--set` applied."""
    if options.model not in recipe.for_families:
        raise unknown("--model", options.model, ("bert", *recipe.for_families))
    reject_unread(options, "mass" if options.model == "mass" else "gpt2")
    run_dir = located(options.run_dir)
    recipe = recipe.for_families[options.model]
    caches = _caches(options)
    if options.smoke:
        return _with_settings(smoke.on_text(recipe, run_dir, caches), options)
    places = {
        "pretrained": absolute(options.pretrained),
        "teacher": options.teacher and absolute(*options.teacher),
        "general": options.general and located(options.general),
    }
    given = {name: place for name, place in places.items() if place}
    makes_pretrained = "pretrained" not in given and (
        "teacher" not in given or "general" not in given
    )
    require(options, "pairs" if options.model == "mass" else "task_text")
    if makes_pretrained:
        require(options, "decoder", "corpus")
    else:
        names = ("decoder", "tokenizer", "vocabulary_size")
        reject_given(options, names, "beside --pretrained")
    if "general" not in given:
        require(options, "corpus")
    else:
        names = ("student",)
        if not makes_pretrained:
            names += ("corpus", "column", "held_out")
        reject_given(options, names, "beside --general")
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
    reject_unread(options, "bert")
    names = ("strategy", "mixed_precision", "control", "cache")
    reject_given(options, names, "beside --config of a chain on text")
    options = for_steps(options)
    settings = settings_of(PretrainSettings, options.config)
    require_same_recipe(options, settings)
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
