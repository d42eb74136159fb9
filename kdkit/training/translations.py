"""Texts with translations as a source, for sentence encoders."""

import functools
import itertools
import pathlib

import numpy as np

from kdkit.config.data import Translations
from kdkit.data.stored_translations import (
    StoredTranslations,
    choose_translations,
    store_translations,
)
from kdkit.errors import UsageError
from kdkit.models.conventions import Conventions
from kdkit.tasks.embedding_metrics import bitext_metrics
from kdkit.training.source import Source, log_texts, measured, reader
from kdkit.training.texts import ScoredPairs, vector_source

ACCURACY = "bitext_accuracy"
VOCABULARY_TEXTS = 2_000_000  # to train a vocabulary on


def bitext_measure(texts: StoredTranslations, languages: tuple, pairs=None):
    """Returns a function that measures how often translations are nearest.

    Args:
        texts: `StoredTranslations`.
        languages: tuple of strings. The first is that of the sources.
        pairs: as from `ScoredPairs.encode`: a function whose metrics are
            added, or `None`.
    """
    outputs, rows = reader(texts), texts.source_rows
    sources = np.flatnonzero(texts.languages == 0)

    def measure(predict):
        vectors, found = outputs(predict), {}
        for number, name in enumerate(languages[1:], start=1):
            targets = np.flatnonzero(texts.languages == number)
            if len(targets):
                metrics = bitext_metrics(
                    vectors[sources[rows[targets]]], vectors[targets]
                )
                found[f"{ACCURACY}_{name}"] = metrics["accuracy"]
        found = {ACCURACY: float(np.mean([*found.values()])), **found}
        if pairs is not None:
            found |= pairs(predict)["metrics"]
        return measured("held_out", texts.sources, found)

    return measure


def source_outputs(outputs, texts: StoredTranslations):
    """Returns a teacher's outputs for each row's source."""
    found, source_rows = outputs(texts.sources), texts.source_rows
    return lambda rows, padded_length: found(source_rows[rows], padded_length)


def translation_partners(texts: StoredTranslations) -> np.ndarray:
    """Returns the same line's text in another language, for each text."""
    source_rows = texts.source_rows
    partners = np.arange(len(source_rows))
    order = np.lexsort((texts.languages, source_rows))
    for _, group in itertools.groupby(order, key=source_rows.__getitem__):
        first, *others = group
        partners[others] = first
        if others:
            partners[first] = others[source_rows[first] % len(others)]
    return partners


def vocabulary_texts(settings: Translations) -> list[str]:
    """Returns the texts to train a vocabulary on."""
    return [*itertools.islice(settings.texts(held_out=False), VOCABULARY_TEXTS)]


def translations_source(
    settings: Translations,
    pairs: ScoredPairs,
    tokenizer,
    teacher_tokenizer,
    directory,
    conventions: Conventions,
) -> Source:
    """Reads and encodes the texts of a run, and its pairs."""
    known, compared = pairs.texts, pairs.names
    if settings.held_out:
        compared += ("the held-out files",)
        lines = settings.texts(held_out=True)
        known = itertools.chain(known, lines)
    choice = choose_translations(settings.lines(), known, settings.holds_out)
    train, dev = choice.part(held_out=False), choice.part(held_out=True)
    if settings.held_out:
        lines = settings.lines(held_out=True)
        dev = choose_translations(lines).part(held_out=False)
    require_languages("train", train, settings.languages)
    require_languages("measure", dev, settings.languages)

    def stored(name, part, tokenizer):
        is_from_files = bool(settings.held_out) and part is dev
        return store_translations(
            functools.partial(settings.lines, is_from_files),
            part,
            tokenizer,
            teacher_tokenizer,
            settings.sequence_length,
            pathlib.Path(directory, name),
            len(settings.languages),
        )

    def measure_on(texts, tokenizer):
        length = settings.sequence_length
        _, on_pairs = pairs.encode(tokenizer, length, conventions)
        return bitext_measure(texts, settings.languages, on_pairs)

    train = stored("train", train, tokenizer)
    held_out = stored("held_out", dev, tokenizer)
    counts = {**choice.counts, "compared_with": compared}
    log_texts("texts", train, held_out, counts)
    for_teacher = stored("held_out_for_teacher", dev, teacher_tokenizer)
    return vector_source(
        train,
        held_out,
        settings.num_buckets,
        translation_partners,
        evaluate=measure_on(held_out, tokenizer),
        evaluate_teacher=measure_on(for_teacher, teacher_tokenizer),
        metric=ACCURACY,
        larger_is_better=True,
        teacher_outputs=source_outputs,
        counts=counts,
    )


def require_languages(purpose: str, part: tuple, languages: tuple) -> None:
    """Requires texts in each language to train, or to measure, on."""
    count = len(languages)
    missing = {*range(count)} - {*(part[0] % count).tolist()}
    if missing:
        names = ", ".join(languages[one] for one in sorted(missing))
        raise UsageError(f"There are no texts to {purpose} on in {names}.")
