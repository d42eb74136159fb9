"""Checks of the teachers' answers on a task."""

import pathlib
import shlex

import numpy as np
import scipy.optimize
import sklearn.metrics

from kdkit.data.own_tables import set_aside_in_words
from kdkit.doctor.findings import OK, RUINS, WARNING, share
from kdkit.io.reading import read_json
from kdkit.models.places import CONFIG, RUN_FILE
from kdkit.tasks import Regression, SingleLabel
from kdkit.tasks.baseline import FEWEST_ANSWERS

RETRAIN = (
    "Use a teacher that was fine-tuned on this task: kdkit train-teacher, or "
    "train it for more epochs or with another learning rate."
)
REORDER = (
    "Pass your table with --train, and its labels in the teacher's order with "
    "--labels. Or correct id2label in the teacher's config.json, reorder its "
    "last layer, or fine-tune a teacher on this data."
)
UNSOFTEN = (
    "Remove the softmax from the teacher. Otherwise its soft labels are nearly "
    "equal for all classes."
)
LEAST_GAIN = 0.1  # in accuracy; below it, the order is not the problem
FEWEST = 10  # examples; fewer may all be wrong by chance
SPREADS = 4  # standard errors, because the best of many orders is chosen
SUM_TOLERANCE = 1e-3  # of the sum of probabilities, in 16 bits


def teacher_accuracy(run):
    """A teacher whose answers on dev do not depend on the labels.

    Its answers are not finite, or it has collapsed as a student may, or its
    scores are reversed. Generated sentences, which are for trials, and few
    answers are no evidence.
    """
    for name, split, targets, logits in run.answers:
        if split == "train":
            continue
        count = int((~np.isfinite(logits)).any(axis=-1).sum())
        if count:
            found = f"{name}: {count} of {len(logits)} answers are not finite."
            yield RUINS, found, RETRAIN
            continue
        baseline = run.task.kind.baseline(targets, logits)
        reason = run.task.kind.collapse(targets, logits)
        is_score = isinstance(run.task.kind, Regression)
        # Of n answers, that many standard errors above 0.
        errors = -baseline.correlation * baseline.num_answers**0.5
        if is_score and errors > 2:
            reason = "gives higher scores for lower labels"
        few = baseline.num_answers < FEWEST_ANSWERS or run.task.generate
        found = (
            f"{name}: {baseline.measure} {share(baseline.model, 1)} on "
            f"{baseline.num_answers} examples, the best constant answer "
            f"{share(baseline.constant, 1)}."
        )
        if reason is None:
            yield OK, found, ""
        else:
            found = f"{found} The teacher {reason}."
            yield WARNING if few else RUINS, found, RETRAIN


def dev_set_aside(run):
    """A teacher that may have learned from the rows that are set aside for dev.

    A run of kdkit on the same table has set the same rows aside.
    """
    table = run.task.table if run.task else None
    if table is None or not table.sets_dev_aside:
        return
    for place in map(pathlib.Path, run.config.teachers):
        folders = (place, place.parent)
        if not any(_sets_aside(one, table) for one in folders):
            yield (
                WARNING,
                f"dev is {set_aside_in_words(table.train)}. If {place} was "
                "fine-tuned on that table, it has seen these rows, and all "
                "accuracies on dev are too high.",
                "Pass --dev with rows that the teacher has not seen.",
            )


def _sets_aside(folder, table):
    """Whether a run has set the same rows of a table aside."""
    if not (folder / RUN_FILE).is_file():
        return False
    data = read_json(folder / CONFIG, "a run's config").get("data") or {}
    own = data.get("table") or {}
    return own.get("train") == table.train and not own.get("dev")


def teacher_logits(run):
    """Probabilities in place of logits, on which losses apply a softmax."""
    for name, split, _, logits in run.answers:
        is_whole = split != "train" and logits.shape[-1] > 1
        if not is_whole or not np.isfinite(logits).all():
            continue
        sums = logits.sum(axis=-1, dtype="float64")
        is_other = logits.min() < 0 or np.abs(sums - 1).max() > SUM_TOLERANCE
        found = f"{name}: from {logits.min():.2f} to {logits.max():.2f}"
        if is_other or len(logits) < FEWEST:
            yield OK, f"{found}.", ""
        else:
            found = f"{found}, and each answer's sum to 1: probabilities."
            yield RUINS, found, UNSOFTEN


def label_order(run):
    """Another order of the classes that explains the answers much better.

    The order with the highest accuracy is found in the confusion matrix, as an
    assignment of the teacher's classes to the data's. With many classes the
    best order always fits the examples that it was found with. So each half of
    the examples is scored with the order from the other half.
    """
    for name, split, targets, logits in run.answers:
        is_finite = np.isfinite(logits).all()
        if not isinstance(run.task.kind, SingleLabel) or not is_finite:
            continue
        labels, names = np.asarray(targets), run.task.class_names
        predictions, count = run.task.kind.predict(logits), len(labels)
        if count < FEWEST or np.ptp(labels) == 0:
            yield OK, f"{name}: {count} answers determine no order.", ""
            continue
        is_right = predictions == labels
        by_class = np.argsort(labels, kind="stable")
        halves = by_class[::2], by_class[1::2]
        would_be = np.empty(count, bool)
        for half, other in (halves, halves[::-1]):
            order = _best_order(labels[half], predictions[half], len(names))
            would_be[other] = order[predictions[other]] == labels[other]
        gains = would_be.astype(int) - is_right
        if gains.mean() < max(LEAST_GAIN, SPREADS * gains.std() / count**0.5):
            found = f"{name}: no other order explains the answers better."
            yield OK, found, ""
            continue
        order = _best_order(labels, predictions, len(names))
        moved = "; ".join(
            f"the teacher's class {theirs} is this data's {names[ours]!r}"
            for theirs, ours in enumerate(order)
            if theirs != ours and theirs in predictions
        )
        advice, table = REORDER, run.task.table
        if split != "train" and table is not None and table.labels:
            listed = shlex.join(table.labels[ours] for ours in order)
            advice = (
                f"List the labels in the teacher's order: --labels {listed}"
            )
        yield (
            RUINS,
            f"{name}: {100 * is_right.mean():.1f} % of {count} answers are "
            f"right as it is, {100 * would_be.mean():.1f} % in another order: "
            f"{moved}.",
            advice,
        )


def _best_order(labels, predictions, num_classes):
    """Returns the data's class for each teacher class; its own if equal."""
    confusion = sklearn.metrics.confusion_matrix(
        predictions, labels, labels=range(num_classes)
    )
    # The sum is below one example, so it only decides between equal orders.
    stays = np.eye(num_classes) / (num_classes + 1)
    _, order = scipy.optimize.linear_sum_assignment(
        confusion + stays, maximize=True
    )
    return order
