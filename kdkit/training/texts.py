"""Texts as a source, whose vectors a sentence encoder learns from a teacher."""

import dataclasses
import functools
import logging
import pathlib
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from kdkit.config.data import EmbedderData, TaskData, Texts
from kdkit.data import EncodedExamples, Examples, SequenceDataset, encode
from kdkit.data.selection import choose, take
from kdkit.data.stored_texts import store_texts
from kdkit.errors import UsageError
from kdkit.losses import InBatchContrastive
from kdkit.models.conventions import PLAIN, Conventions
from kdkit.tasks import Task
from kdkit.tasks.embedding_metrics import pair_metrics
from kdkit.training.source import Source, bucket_orders, measured, reader
from kdkit.training.tasks import open_task

_log = logging.getLogger(__name__)
SPEARMAN = "spearman"


def open_pairs(scored: TaskData | None) -> Task | None:
    """Returns the task whose pairs measure models, `None` without one."""
    if scored is None:
        return None
    task = open_task(scored)
    if not (task.is_regression and task.num_texts == 2):
        raise UsageError(
            "Sentence encoders are measured on pairs of texts with scores, "
            f"such as stsb. Received: task {task.name!r}."
        )
    return task


def read_known(task: Task | None, settings: EmbedderData) -> tuple:
    """Returns the texts of the pairs, and in words what has them."""
    if task is None:
        return [], ()
    scored = settings.scored
    examples = task.load(scored.dev_split, scored.data_dir)
    texts = [text for one in examples.texts for text in one]
    return texts, (f"{task.name} {scored.dev_split}",)


def encode_pairs(
    task: Task | None,
    settings: EmbedderData,
    tokenizer,
    conventions: Conventions = PLAIN,
) -> tuple[EncodedExamples | None, Callable[[Callable], dict] | None]:
    """Encodes the texts of scored pairs.

    Returns:
        Tuple of the texts, and of a function that measures a sentence encoder
        on the pairs; `None` and `None` without a task.
    """
    if task is None:
        return None, None
    scored = settings.scored
    examples = task.load(scored.dev_split, scored.data_dir)
    texts = list(dict.fromkeys(text for one in examples.texts for text in one))
    number = {text: place for place, text in enumerate(texts)}
    sides = np.array([[number[text] for text in one] for one in examples.texts])
    scores = np.asarray(examples.labels, "float64").reshape(-1)
    texts = [conventions.prompt() + text for text in texts]
    encoded = encode(Examples((texts,)), tokenizer, settings.sequence_length)
    vectors = reader(encoded)

    def measure(predict):
        first, second = vectors(predict)[sides]
        metrics = pair_metrics(first, second, scores, conventions.similarity)
        return measured(scored.dev_split, scores, metrics)

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


def same_texts(texts: EncodedExamples) -> np.ndarray:
    """Returns each text as its own partner, with another dropout (SimCSE)."""
    return np.arange(len(texts))


def vector_source(
    train: EncodedExamples,
    held_out: EncodedExamples,
    num_buckets: int | None,
    partners: Callable[[EncodedExamples], np.ndarray] = same_texts,
    **fields,
) -> Source:
    """Returns texts whose vectors are compared with a teacher's.

    Args:
        train, held_out: `EncodedExamples` without labels.
        num_buckets: as in `Buckets`.
        partners: callable from texts to the partner of each, which its vector
            is compared with where no teacher is.
        **fields: further fields of `Source`.
    """

    def without_teacher():
        return dataclasses.replace(
            source,
            train=WithPartners(train, partners(train)),
            held_out=WithPartners(held_out, partners(held_out)),
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
    task: Task | None,
    tokenizer,
    directory,
    conventions: Conventions = PLAIN,
) -> Source:
    """Reads and encodes the texts of a run, and its pairs."""
    pairs, measure = encode_pairs(task, settings, tokenizer, conventions)
    known, compared = read_known(task, settings)
    choice = functools.cache(
        lambda: choose(
            ((line,) for line in settings.lines()),
            known,
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
            settings.sequence_length,
            pathlib.Path(directory, name),
            conventions.training_prompts,
        )

    train, counts = stored("train")
    held_out = stored("held_out")[0] if pairs is None else pairs
    log_texts(train, held_out, counts, compared)
    return vector_source(
        train,
        held_out,
        settings.num_buckets,
        evaluate=measure,
        evaluate_teacher=measure,
        metric="loss" if measure is None else SPEARMAN,
        larger_is_better=measure is not None,
        counts={**counts, "compared_with": compared},
    )


def log_texts(train, held_out, counts: dict, compared: tuple) -> None:
    """Logs the numbers of texts."""
    _log.info(
        f"texts: {len(train)} to train on, {len(held_out)} to measure on; "
        f"{train.num_truncated} truncated to {train.sequence_length} tokens; "
        f"left out: {counts['empty']} without text, {counts['repeated']} "
        "repeated."
    )
    if counts["dropped"]:
        _log.warning(
            f"{counts['dropped']} texts are left out because they or their "
            f"sources are also in {' or '.join(compared)}."
        )


@keras.saving.register_keras_serializable(package="kdkit")
class ContrastiveLoss(keras.losses.Loss):
    """`kdkit.losses.InBatchContrastive` between the two rows of each text."""

    def __init__(self, temperature=0.05, name="contrastive_loss", **options):
        super().__init__(name=name, **options)
        self._loss = InBatchContrastive(temperature)

    def call(self, y_true, y_pred):
        """Returns the mean of all texts, once for each row."""
        mean = self._loss(y_pred[0::2], y_pred[1::2])
        return ops.ones_like(y_pred[:, 0]) * ops.cast(mean, y_pred.dtype)

    def get_config(self):
        temperature = self._loss.temperature
        return {**super().get_config(), "temperature": temperature}
