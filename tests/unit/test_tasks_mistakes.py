"""Mistakes of a call that would measure something else, unnoticed."""

import dataclasses

import numpy as np
import pytest
from kit.encoders import tokenizer

from kdkit import tasks
from kdkit.errors import RunError, UsageError
from kdkit.tasks import embedding_metrics

SST2 = tasks.get_task("sst2")
TAGS = tasks.Tagging(("O", "B-PER"))
BROKEN = np.array([[1.0, 0.0], [np.nan, 1.0]])


def renamed(**changes):
    return dataclasses.replace(tasks.get_task("similarity"), **changes)


CALLS = {
    "logits_of_other_classes": (
        lambda: SST2.compute_metrics([0, 1], np.zeros((2, 3))),
        UsageError, r"shape \(2, 3\)",
    ),
    "logits_of_other_rows": (
        lambda: SST2.compute_metrics([0, 1], np.zeros((3, 2))),
        UsageError, "2 labels",
    ),
    "logits_of_no_rows": (
        lambda: SST2.compute_metrics([], np.zeros((0, 2))),
        UsageError, "0 labels",
    ),
    "logits_of_other_words": (
        lambda: TAGS.compute_metrics((), [np.array([0, 1])], np.zeros((1, 2))),
        UsageError, "2 labels",
    ),
    "logits_that_are_not_finite": (
        lambda: SST2.compute_metrics([0, 1], BROKEN),
        RunError, "1 of 2 examples",
    ),
    "agreement_of_one_row_with_many": (
        lambda: tasks.agreement(np.zeros((1, 3)), np.zeros((2, 3))),
        UsageError, "Agreement needs",
    ),
    "fewer_references": (
        lambda: tasks.generation_metrics(["a", "b"], ["a"]),
        UsageError, "2 hypotheses, 1 references",
    ),
    "cosines_of_one_row_with_many": (
        lambda: tasks.cosines(np.ones((1, 3)), np.ones((3, 3))),
        UsageError, "Cosines of pairs need",
    ),
    "more_targets": (
        lambda: tasks.bitext_metrics(np.eye(2), np.eye(3)),
        UsageError, "Each source needs one target",
    ),
    "candidates_that_are_not_finite": (
        lambda: embedding_metrics.candidate_metrics(BROKEN),
        RunError, "diverged",
    ),
    "vectors_that_are_not_finite": (
        lambda: tasks.pair_metrics(BROKEN, BROKEN, [1, 2]),
        RunError, "embeddings of 1 of 2 texts",
    ),
    "one_vector_for_all": (
        lambda: tasks.embed_texts(
            lambda batch: np.ones((1, 3)), ["a", "the plot"], tokenizer("bert")
        ),
        UsageError, "one vector for each text",
    ),
    "split": (
        lambda: SST2.check_data(["train", "dev_mismatched"]),
        UsageError, "'dev_mismatched'.*dev, ",
    ),
    "no_data": (
        lambda: tasks.get_task("conll").load("train"),
        UsageError, "Pass --data-dir",
    ),
    "task": (
        lambda: tasks.get_task("sst-2"), UsageError, "Expected one of: sst2, ",
    ),
    "name_of_another_task": (
        lambda: tasks.register_task(renamed(name="sst2")),
        UsageError, "is taken",
    ),
    "metric_of_scores": (
        lambda: tasks.from_table(
            "a.csv", text_column="a", label_column="b", metrics=["pearson"]
        ),
        UsageError, "Unknown metric 'pearson'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", CALLS)
def test_what_would_be_measured_wrongly_is_refused(row):
    call, error, said = CALLS[row]
    with pytest.raises(error, match=said):
        call()
