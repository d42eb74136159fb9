"""Texts for sentence encoders as a data source, and scored pairs."""

import dataclasses
import functools
import logging
import pathlib

import keras
import numpy as np
from keras import ops

from kdkit.data import (
    Buckets,
    EncodedExamples,
    Examples,
    SequenceDataset,
    encode,
)
from kdkit.data.selection import choose, take, text_hashes
from kdkit.data.stored_texts import store_texts
from kdkit.late import tf
from kdkit.losses import InBatchContrastive
from kdkit.models.conventions import PLAIN, Conventions
from kdkit.tasks import Task
from kdkit.tasks.embedding_metrics import pair_metrics
from kdkit.training.embedding_settings import TextsSettings
from kdkit.training.sources import DataSource
from kdkit.training.task_data import BATCH_SIZE, NUM_BUCKETS, Evaluator

_log = logging.getLogger(__name__)
SPEARMAN = "spearman"


@dataclasses.dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Pairs of texts with scores, to measure sentence encoders."""

    task: Task
    split: str
    encoded: EncodedExamples
    sides: np.ndarray
    scores: np.ndarray
    similarity: str

    @functools.cached_property
    def _reader(self):
        return Evaluator(self.task, self.encoded, self.split)

    def __call__(self, predict) -> dict:
        """Returns the fields of an `"evaluation"` event."""
        first, second = self._reader.logits(predict)[self.sides]
        return {
            "split": self.split,
            "examples": len(self.scores),
            "metrics": pair_metrics(
                first, second, self.scores, self.similarity
            ),
            "agreement": None,
        }


def encode_pairs(
    task: Task,
    settings: TextsSettings,
    tokenizer,
    conventions: Conventions = PLAIN,
) -> ScoredPairs:
    """Reads and encodes the pairs of the dev split."""
    examples = task.load(settings.dev_split, settings.data_dir)
    texts = list(dict.fromkeys(text for one in examples.texts for text in one))
    number = {text: place for place, text in enumerate(texts)}
    texts = [conventions.prompt() + text for text in texts]
    return ScoredPairs(
        task,
        settings.dev_split,
        encode(Examples((texts,)), tokenizer, settings.sequence_length),
        np.array([[number[text] for text in one] for one in examples.texts]),
        np.asarray(examples.labels, "float64").reshape(-1),
        conventions.similarity,
    )


@dataclasses.dataclass(frozen=True)
class EmbeddingSource(DataSource):
    """Texts without labels, whose vectors are compared with a teacher's."""

    train: SequenceDataset
    held_out: SequenceDataset
    num_buckets: int | None
    pairs: ScoredPairs | None = None
    label_loss: "keras.losses.Loss | None" = None

    @property
    def measures_start(self) -> bool:
        """Whether models can be measured before training, see `measure`."""
        return self.pairs is not None

    def measure(self, arm: str, predict) -> dict:
        """Returns the fields of an `"evaluation"` event before training."""
        return self.pairs(predict)

    @property
    def primary_metric(self):
        return "loss" if self.pairs is None else SPEARMAN

    @property
    def larger_is_better(self):
        return self.pairs is not None

    @property
    def pad_token_id(self):
        return self.train.pad_token_id

    def labeled_only(self):
        """Returns the texts twice per batch, for a loss without a teacher."""
        return dataclasses.replace(
            self,
            train=TwoViews(self.train),
            held_out=TwoViews(self.held_out),
            label_loss=ContrastiveLoss(),
        )

    def batching(self, stage):
        return Buckets(stage.batch_size, self.num_buckets)

    @property
    def held_out_batching(self):
        return Buckets(BATCH_SIZE, self.num_buckets and NUM_BUCKETS)

    def evaluate(self, predict, logs):
        if self.pairs is not None:
            return self.pairs(predict)
        return {
            "split": "held_out",
            "examples": len(self.held_out),
            "metrics": {
                name.removeprefix("val_"): float(value)
                for name, value in logs.items()
                if name.startswith("val_")
            },
            "agreement": None,
        }


class TwoViews(SequenceDataset):
    """Every text twice in its batch, for two dropout masks (SimCSE)."""

    def __init__(self, texts: EncodedExamples):
        self._texts = texts
        self.lengths = texts.lengths
        self.sequence_length = texts.sequence_length
        self.pad_token_id = texts.pad_token_id

    @property
    def signature(self):
        return self._texts.signature, tf.TensorSpec((None,), "int32")

    def batch(self, rows, padded_length, seed):
        """Returns `(x, y)`: a text's two rows follow each other."""
        x = self._texts.batch(self.views(rows), padded_length, seed)
        return x, np.repeat(rows, 2).astype("int32")

    def views(self, rows: np.ndarray) -> np.ndarray:
        """Returns the numbers of the two texts of each row, in turn."""
        return np.repeat(rows, 2)


def load_texts(
    settings: TextsSettings,
    task: Task | None,
    tokenizer,
    directory,
    conventions: Conventions = PLAIN,
) -> tuple[EmbeddingSource, dict]:
    """Reads and encodes the texts of a run, and its pairs."""
    pairs, known = None, []
    if task is not None:
        pairs = encode_pairs(task, settings, tokenizer, conventions)
        examples = task.load(settings.dev_split, settings.data_dir)
        known = [text for one in examples.texts for text in one]
    choice = functools.cache(
        lambda: choose(
            ((line,) for line in settings.lines()),
            text_hashes(known),
            settings.holds_out,
        )
    )

    def stored(name) -> tuple[EncodedExamples, dict]:
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
    held_out = stored("held_out")[0] if pairs is None else pairs.encoded
    compared = () if task is None else (f"{task.name} {settings.dev_split}",)
    _log.info(
        f"texts: {len(train)} to train on, {len(held_out)} to measure on; "
        f"{train.num_truncated} truncated to {settings.sequence_length} "
        f"tokens; left out: {counts['empty']} empty lines, "
        f"{counts['repeated']} repeated texts.",
    )
    if counts["left_out"]:
        _log.warning(
            f"{counts['left_out']} texts are left out because "
            f"{' and '.join(compared)} contains them."
        )
    return (
        EmbeddingSource(train, held_out, settings.num_buckets, pairs),
        {
            "rows": counts["texts"],
            "dropped": counts["left_out"],
            "compared_with": compared,
            "empty": counts["empty"],
            "repeated": counts["repeated"],
        },
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
