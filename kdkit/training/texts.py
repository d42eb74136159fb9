"""Texts and translations as sources, from which sentence encoders learn."""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from kdkit.config.data import TaskData, Texts, Translations
from kdkit.data import EncodedExamples, Examples, SequenceDataset, encode
from kdkit.data.selection import choose, take
from kdkit.data.stored_texts import (
    StoredTranslations,
    choose_translations,
    store_texts,
    store_translations,
)
from kdkit.errors import UsageError
from kdkit.losses import InBatchContrastive
from kdkit.models.conventions import Conventions
from kdkit.tasks.embedding_metrics import bitext_metrics, pair_metrics
from kdkit.training.source import (
    Source,
    bucket_orders,
    log_texts,
    measured,
    reader,
)
from kdkit.training.tasks import open_task

SPEARMAN, ACCURACY = "spearman", "bitext_accuracy"
TEMPERATURE = 0.05  # as in SimCSE
VOCABULARY_TEXTS = 2_000_000  # to train a vocabulary on


class ScoredPairs:
    """Pairs of texts with scores, on which sentence encoders are measured.

    Args:
        scored: `TaskData` whose dev split is measured, or `None` for no pairs.

    Attributes:
        texts: list of strings.
        names: tuple of strings. In words, what has these texts.
    """

    def __init__(self, scored: TaskData | None):
        self.names, self.texts, self._sides = (), [], ()
        if scored is None:
            return
        task = open_task(scored)
        if not (task.is_regression and task.num_texts == 2):
            raise UsageError(
                "Sentence encoders are measured on pairs of texts with scores, "
                f"such as stsb. Received: task {task.name!r}."
            )
        examples = task.load(scored.dev_split, scored.data_dir)
        self._sides, self._scores = examples.texts, examples.labels
        self.texts = [*itertools.chain(*examples.texts)]
        self._split = scored.dev_split
        self.names = (f"{task.name} {scored.dev_split}",)

    def encode(
        self, tokenizer, sequence_length: int, conventions: Conventions
    ) -> tuple[EncodedExamples, Callable[[Callable], dict]] | tuple[None, None]:
        """Returns the encoded texts, and what measures an encoder on them."""
        if not self.texts:
            return None, None
        texts = [*dict.fromkeys(self.texts)]
        number = {text: place for place, text in enumerate(texts)}
        sides = [[number[text] for text in one] for one in self._sides]
        scores = np.asarray(self._scores, "float64").reshape(-1)
        texts = [conventions.prompt() + text for text in texts]
        encoded = encode(Examples((texts,)), tokenizer, sequence_length)
        vectors = reader(encoded)

        def measure(predict):
            first, second = vectors(predict)[np.array(sides)]
            metrics = pair_metrics(
                first, second, scores, conventions.similarity
            )
            return measured(self._split, scores, metrics)

        return encoded, measure


class WithPartners(SequenceDataset):
    """Every text with its partner in the same batch.

    Args:
        texts: `EncodedExamples`.
        partners: int array. The number of each text's partner.
    """

    def __init__(self, texts: EncodedExamples, partners: np.ndarray):
        self._texts, self._partners = texts, partners
        self.lengths = np.maximum(texts.lengths, texts.lengths[partners])
        self.sequence_length = texts.sequence_length
        self.pad_token_id = texts.pad_token_id

    def batch(self, rows, padded_length, seed):
        """Returns `(x, y)`: a text is followed by its partner."""
        pairs = np.stack([rows, self._partners[rows]], axis=1).reshape(-1)
        x = self._texts.batch(pairs, padded_length, seed)
        return x, np.repeat(rows, 2).astype("int32")


def vector_source(
    train: EncodedExamples,
    held_out: EncodedExamples,
    num_buckets: int | None,
    partners: Callable[[EncodedExamples], np.ndarray] | None = None,
    **fields,
) -> Source:
    """Returns texts whose vectors are compared with a teacher's.

    Args:
        train, held_out: `EncodedExamples` without labels.
        num_buckets: as in `Buckets`.
        partners: callable from texts to the partner of each, which its vector
            is compared with where no teacher is. Defaults to the text itself,
            with another dropout (SimCSE).
        **fields: further fields of `Source`.
    """

    def without_teacher():
        pair = partners or (lambda texts: np.arange(len(texts)))
        return dataclasses.replace(
            source,
            train=WithPartners(train, pair(train)),
            held_out=WithPartners(held_out, pair(held_out)),
            label_loss=ContrastiveLoss(),
        )

    source = Source(
        train,
        held_out,
        **bucket_orders(num_buckets),
        without_teacher=without_teacher,
        **fields,
    )
    return source


def texts_source(
    settings: Texts,
    pairs: ScoredPairs,
    tokenizer,
    directory,
    conventions: Conventions,
) -> Source:
    """Reads and encodes the texts of a run, and its pairs."""
    length = settings.sequence_length
    dev, measure = pairs.encode(tokenizer, length, conventions)
    choice = functools.cache(
        lambda: choose(
            ((line,) for line in settings.lines()),
            pairs.texts,
            settings.holds_out,
        )
    )

    def stored(name):
        def texts():
            rows, _ = choice().part(held_out=name == "held_out")
            return take(settings.lines(), rows), choice().counts

        return store_texts(
            texts,
            tokenizer,
            length,
            pathlib.Path(directory, name),
            conventions.training_prompts,
        )

    train, counts = stored("train")
    held_out = stored("held_out")[0] if dev is None else dev
    counts = {**counts, "compared_with": pairs.names}
    log_texts("texts", train, held_out, counts)
    return vector_source(
        train,
        held_out,
        settings.num_buckets,
        evaluate=measure,
        evaluate_teacher=measure,
        metric="loss" if measure is None else SPEARMAN,
        larger_is_better=measure is not None,
        counts=counts,
    )


class ContrastiveLoss(keras.losses.Loss):
    """`kdkit.losses.InBatchContrastive` between the two rows of each text."""

    def call(self, y_true, y_pred):
        """Returns the mean of all texts, once for each row."""
        loss = InBatchContrastive(TEMPERATURE)
        mean = loss(y_pred[0::2], y_pred[1::2])
        return ops.ones_like(y_pred[:, 0]) * ops.cast(mean, y_pred.dtype)


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
