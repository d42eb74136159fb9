"""Texts with translations as a source, for sentence encoders."""

import functools
import itertools
import pathlib

import numpy as np

from kdkit.config.data import Translations
from kdkit.data.selection import Choice
from kdkit.data.stored_translations import (
    StoredTranslations,
    choose_translations,
    store_translations,
)
from kdkit.errors import UsageError
from kdkit.models.conventions import PLAIN, Conventions
from kdkit.tasks import Task
from kdkit.tasks.embedding_metrics import bitext_metrics
from kdkit.training.source import Source, measured, reader
from kdkit.training.texts import (
    encode_pairs,
    log_texts,
    read_known,
    vector_source,
)

ACCURACY = "bitext_accuracy"
VOCABULARY_TEXTS = 2_000_000  # to train a vocabulary on


def bitext_measure(texts: StoredTranslations, languages: tuple, pairs=None):
    """Returns a function that measures how often translations are nearest.

    Args:
        texts: `StoredTranslations`.
        languages: tuple of strings. The first is that of the sources.
        pairs: as from `encode_pairs`: a function whose metrics are added, or
            `None`.
    """
    outputs, rows = reader(texts), texts.source_rows
    sources = np.flatnonzero(texts.languages == 0)
    sources = sources[np.argsort(rows[sources])]

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
    task: Task | None,
    tokenizer,
    teacher_tokenizer,
    directory,
    conventions: Conventions = PLAIN,
) -> Source:
    """Reads and encodes the texts of a run, and its pairs."""
    known, compared = read_known(task, settings)
    if settings.held_out:
        compared += ("the held-out files",)
        lines = settings.lines(held_out=True)
        known = itertools.chain(known, itertools.chain.from_iterable(lines))
    choice = measured_choice = choose_translations(
        settings.lines(), known, settings.holds_out
    )
    if settings.held_out:
        measured_choice = choose_translations(settings.lines(held_out=True))
    require_translations(choice, measured_choice, settings)

    def stored(name, tokenizer):
        is_from_files = bool(settings.held_out) and name != "train"
        return store_translations(
            functools.partial(settings.lines, is_from_files),
            measured_choice if is_from_files else choice,
            tokenizer,
            teacher_tokenizer,
            settings.sequence_length,
            pathlib.Path(directory, name),
            len(settings.languages),
            held_out=name != "train" and not is_from_files,
        )

    def measure_on(texts, tokenizer):
        _, pairs = encode_pairs(task, settings, tokenizer, conventions)
        return bitext_measure(texts, settings.languages, pairs)

    train, held_out = stored("train", tokenizer), stored("held_out", tokenizer)
    log_texts(train, held_out, choice.counts, compared)
    for_teacher = stored("held_out_for_teacher", teacher_tokenizer)
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
        counts={**choice.counts, "compared_with": compared},
    )


def require_translations(
    choice: Choice, measured: Choice, settings: Translations
) -> None:
    """Checks that each language has texts to train and to measure on."""
    parts = {
        "train": choice.part(held_out=False),
        "measure": measured.part(held_out=not settings.held_out),
    }
    languages = dict(enumerate(settings.languages))
    for purpose, (rows, _) in parts.items():
        missing = {*languages} - {*(rows % len(languages)).tolist()}
        if missing:
            names = ", ".join(languages[one] for one in sorted(missing))
            raise UsageError(f"There are no texts to {purpose} on in {names}.")
