"""The data of a stage: examples, their order, and how models are measured.

A kind of data is a function that returns a `Source`, in `tasks.py`, `text.py`,
`texts.py` and `candidates.py`. `BatchStream` makes the batches of all kinds. A
new kind is a function, and a row of tests/unit/test_sources.py.
"""

import dataclasses
import functools
import logging
from collections.abc import Callable, Sequence

import numpy as np

from kdkit.data import (
    BatchStream,
    Buckets,
    FullBatches,
    SequenceDataset,
    TokenBatches,
)
from kdkit.data.stream import WHOLE, Shares
from kdkit.late import keras
from kdkit.recipes.stages import Stage

_log = logging.getLogger(__name__)
BATCH_SIZE = 64
NUM_BUCKETS = 3  # few lengths, because each may need a compilation

Order = Buckets | FullBatches | TokenBatches
Outputs = Callable[[np.ndarray, int], dict]  # `features` of a `BatchStream`


def same_rows(outputs: Callable[..., Outputs], rows) -> Outputs:
    """Returns the teachers' outputs for the rows of a data set themselves."""
    return outputs(rows)


def no_outputs(stage: Stage) -> None:
    """Returns no outputs of teachers without a cache."""


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """The data of a stage.

    Args:
        train: `SequenceDataset`, or `None` to measure only.
        held_out: `SequenceDataset` to measure losses on.
        order: callable from a stage to the order of the batches to train on.
        held_out_order: the order of the batches to measure losses on.
        evaluate: callable from a model's forward pass to the fields of an
            `"evaluation"` event, or `None` to take the losses on `held_out`.
            Defaults to `None`.
        evaluate_teacher: as `evaluate`, from the teacher's forward pass or its
            cached outputs, or `None` if nothing is measured before training.
            Defaults to `None`.
        metric: string. The metric that chooses the best epoch. Defaults to
            `"loss"`.
        larger_is_better: bool. Defaults to `False`.
        label_loss: `keras.losses.Loss` on the labels, or `None`.
        training_metrics: callable without arguments. Returns new Keras metrics
            of training. Defaults to none.
        teacher_outputs: callable from a function that returns the teachers'
            outputs for a data set, and `train` or `held_out`, to the outputs
            for its rows. Defaults to those for the data set itself.
        known_outputs: callable from a stage to outputs for `held_out` that
            need no cache, or `None`. Defaults to `None` for each stage.
        without_teacher: callable without arguments. Returns the source of
            stages without a teacher. Defaults to `None`, the same source.
        control: `Source` of a control, with as many examples in an epoch.
            Defaults to `None`, the same.
        counts: dict. The fields of an `"unlabeled"` event. Defaults to `None`.
        augmented: dict. The fields of an `"augmented"` event. Defaults to
            `None`.
    """

    train: SequenceDataset | None
    held_out: SequenceDataset
    order: Callable[[Stage], Order]
    held_out_order: Order
    evaluate: Callable[[Callable], dict] | None = None
    evaluate_teacher: Callable[[Callable], dict] | None = None
    metric: str = "loss"
    larger_is_better: bool = False
    label_loss: "keras.losses.Loss | None" = None
    training_metrics: Callable[[], Sequence] = tuple
    teacher_outputs: Callable[..., Outputs] = same_rows
    known_outputs: Callable[[Stage], Outputs | None] = no_outputs
    without_teacher: "Callable[[], Source] | None" = None
    control: "Source | None" = None
    counts: dict | None = None
    augmented: dict | None = None

    @property
    def pad_token_id(self) -> int | None:
        """The id that pads sequences, `None` for data that are never padded."""
        return getattr(self.train, "pad_token_id", None)

    def training_stream(
        self, stage: Stage, seed: int, outputs=None, shares: Shares = WHOLE
    ) -> BatchStream:
        """Returns the batches that a stage trains on."""
        return BatchStream(
            self.train,
            self.order(stage),
            seed,
            outputs and self.teacher_outputs(outputs, self.train),
            shares,
            stage.gradient_accumulation_steps,
        )

    def validation_stream(
        self, stage: Stage, outputs=None, shares: Shares = WHOLE
    ) -> BatchStream:
        """Returns the batches that the losses of a stage are measured on."""
        features = self.known_outputs(stage)
        if outputs is not None:
            features = self.teacher_outputs(outputs, self.held_out)
        return BatchStream(
            self.held_out, self.held_out_order, features=features, shares=shares
        )

    def measure(self, predict, logs: dict) -> dict:
        """Returns the fields of an `"evaluation"` event after an epoch."""
        if self.evaluate is not None:
            return self.evaluate(predict)
        losses = {
            name.removeprefix("val_"): float(value)
            for name, value in logs.items()
            if name.startswith("val_")
        }
        return measured("held_out", self.held_out, losses)


def bucket_orders(num_buckets: int | None, rows_of_epoch=None) -> dict:
    """Returns the orders of a `Source` whose examples differ in length."""
    return {
        "order": lambda stage: Buckets(
            stage.batch_size, num_buckets, rows_of_epoch
        ),
        # Only losses of training count padding.
        "held_out_order": Buckets(BATCH_SIZE, num_buckets and NUM_BUCKETS),
    }


def measured(split: str, rows, metrics: dict) -> dict:
    """Returns the fields of an `"evaluation"` event."""
    return {"split": split, "examples": len(rows), "metrics": metrics}


def log_texts(what: str, train, held_out, counts: dict) -> None:
    """Logs the numbers of texts, and of those that were left out."""
    _log.info(
        f"{what}: {len(train)} to train on, {len(held_out)} to measure on; "
        f"{train.num_truncated} texts truncated to {train.sequence_length} "
        f"tokens; left out: {counts['empty']} without text, "
        f"{counts['repeated']} repeated."
    )
    if counts["dropped"]:
        others = " or ".join(counts["compared_with"])
        _log.warning(
            f"{counts['dropped']} {what} are left out because {others} "
            "contain one of their texts."
        )


def reader(encoded) -> Callable[[Callable], np.ndarray]:
    """Returns a function that runs forward passes over encoded examples."""

    # Once, not in each epoch: TensorFlow frees a data set from a Python
    # generator only when the process ends.
    @functools.cache
    def batches():
        stream = BatchStream(encoded, Buckets(BATCH_SIZE, NUM_BUCKETS))
        rows = [rows for rows, _ in stream.evaluation_batches]
        return rows, stream.evaluation()

    def read(predict):
        by_row = {}
        for rows, batch in zip(*batches(), strict=True):
            inputs = batch[0] if isinstance(batch, tuple) else batch
            answers = encoded.answers(np.asarray(predict(inputs)), rows)
            by_row.update(zip(rows, answers, strict=True))
        return np.concatenate([by_row[row] for row in range(len(encoded))])

    return read


def predict_logits(predict, encoded) -> np.ndarray:
    """Runs a model over encoded examples."""
    return reader(encoded)(predict)
