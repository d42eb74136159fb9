"""Checks of a teacher: accuracy, label order, logits, determinism."""

import shlex
import zlib

import keras
import numpy as np
import scipy.optimize
import sklearn.metrics

from kdkit.doctor.data import are_alike
from kdkit.doctor.findings import NOTE, OK, RUINS, WARNING, Finding, share
from kdkit.tasks import Regression, Task
from kdkit.tasks.baseline import FEWEST_ANSWERS

ACCURACY_CHECK = "teacher accuracy"
RETRAIN = (
    "Use a teacher that was fine-tuned on this task: kdkit train-teacher, or "
    "train it for more epochs or with another learning rate."
)


def teacher_accuracy(
    task: Task,
    targets,
    logits: np.ndarray,
    constant: float | None = None,
    check: str = ACCURACY_CHECK,
) -> Finding:
    """Compares a teacher's predictions on dev with the best constant answer.

    The outcome ruins the run if the teacher is not better and its answers do
    not depend on the labels, or depend on them in reverse. It is only a warning
    for generated sentences, which are for trials, and for fewer than 100
    answers, which are not enough evidence. Labels that are all the same are not
    compared.

    Args:
        task: `kdkit.tasks.Task`.
        targets: labels, as for `Task.compute_metrics`.
        logits: float array of shape `(num_labels, num_classes)`.
        constant: float or `None`. The accuracy without a model, if it is not
            that of the most frequent class. Defaults to `None`.
        check: string, as in `Finding`. Defaults to `"teacher accuracy"`.
    """
    broken = int((~np.isfinite(logits)).any(axis=-1).sum())
    if broken:
        return Finding(
            check,
            RUINS,
            f"The logits of {broken} of {len(logits)} answers are not finite.",
            "The teacher has diverged. Train it again with a smaller learning "
            "rate.",
        )
    if are_alike(task, targets):
        return Finding(
            check,
            NOTE,
            f"The labels of {len(targets)} rows are all the same, so one "
            "constant answer is always right: the teacher's show nothing.",
        )
    baseline = task.kind.baseline(targets, logits)
    level = baseline.constant if constant is None else constant
    found = _found(baseline, level, constant is not None, task)
    is_better = baseline.model > level
    is_blind = not baseline.is_related if constant is None else not is_better
    is_reversed = isinstance(task.kind, Regression) and (
        baseline.is_related and baseline.correlation < 0
    )
    if (is_blind and not is_better) or is_reversed:
        return Finding(
            check, _gravity(task, baseline.num_answers), found, RETRAIN
        )
    if not is_better and isinstance(task.kind, Regression):
        scores = task.kind.predict(logits)
        return Finding(
            check,
            WARNING,
            f"{found} Its scores go from {scores.min():.2f} to "
            f"{scores.max():.2f}, the labels from {np.min(targets):.2f} to "
            f"{np.max(targets):.2f}.",
            "It orders the rows and scores on another scale. Use a teacher "
            "that was trained on these labels.",
        )
    if not is_better and baseline.correlation < 0:
        return Finding(
            check,
            WARNING,
            found,
            "Its answers are negatively correlated with the labels. Check the "
            "order of the classes.",
        )
    if not is_better:
        return Finding(
            check,
            WARNING,
            found,
            "It depends on the labels, but predicts classes too often or too "
            "rarely. Check the balance of the classes.",
        )
    spread = 1 / np.sqrt(baseline.num_answers)
    if baseline.model - level < spread:
        return Finding(
            check,
            NOTE,
            f"{found} The difference may be chance.",
            "Measure it on more rows: kdkit evaluate TEACHER.",
        )
    return Finding(check, OK, found)


def _gravity(task, num_answers):
    """Returns the outcome for a bad teacher, which needs enough evidence."""
    if task.generate is not None or num_answers < FEWEST_ANSWERS:
        return WARNING
    return RUINS


def _found(baseline, level, is_by_word, task):
    count = baseline.num_answers
    if isinstance(task.kind, Regression):
        return (
            f"On {count} rows the scores explain "
            f"{100 * baseline.model:.1f} % of the labels' variance, their mean "
            f"0 %; correlation {baseline.correlation:.2f}."
        )
    others = "each word's usual label" if is_by_word else "the usual class"
    if baseline.measure != "accuracy":
        others = "each class's usual answer"
    return (
        f"Of {count} answers {share(baseline.model, 1)} are right; {others} "
        f"alone would be in {share(level, 1)}. Correlation with the labels "
        f"{baseline.correlation:.2f}."
    )


LABEL_ORDER_CHECK = "label order"
ADVICE = (
    "Pass your table with --train, and its labels in the teacher's order with "
    "--labels. Or correct id2label in the teacher's config.json, reorder its "
    "last layer, or fine-tune a teacher on this data."
)
LEAST_GAIN = 0.1  # in accuracy; below it, the order is not the problem
LEAST_ROWS = 10  # fewer may all be wrong by chance
SPREADS = 4  # standard errors, because the best of many orders is chosen


def label_order(
    class_names: tuple[str, ...],
    labels: np.ndarray,
    predictions: np.ndarray,
    check: str = LABEL_ORDER_CHECK,
    advice: str = ADVICE,
    words: tuple[str, ...] | None = None,
) -> Finding:
    """Looks for a class order that explains a low accuracy.

    The order with the highest accuracy is found in the confusion matrix, as an
    assignment of the teacher's classes to the data's. With many classes the
    best order always fits the examples that it was found with. So each half of
    the examples is scored with the order from the other half; both halves
    contain half of each class. The reported order is from all examples.

    Args:
        class_names: tuple of strings. The data's classes by their numbers.
        labels: int array of shape `(num_rows,)`.
        predictions: int array of shape `(num_rows,)`. The teacher's classes.
        check: string, as in `Finding`. Defaults to `"label order"`.
        advice: string, as in `Finding`, if another order is better. Defaults
            to the advice for a wrong teacher.
        words: tuple of strings or `None`. The labels in the data by their
            numbers, if the advice is to list them with --labels. Defaults to
            `None`.

    >>> label_order(("bad", "good"), np.arange(40) % 2, 1 - np.arange(40) % 2)
    Finding(check='label order', outcome='ruins the run', ...
    """
    count = len(labels)
    if count < LEAST_ROWS:
        return Finding(
            check, NOTE, f"{count} rows are too few to determine an order."
        )
    if np.ptp(labels) == 0:
        return Finding(
            check, NOTE, f"{count} rows of one class determine no order."
        )
    is_right = predictions == labels
    by_class = np.argsort(labels, kind="stable")
    halves = by_class[::2], by_class[1::2]
    would_be = np.empty(count, bool)
    for half, other in (halves, halves[::-1]):
        order = _best_order(labels[half], predictions[half], len(class_names))
        would_be[other] = order[predictions[other]] == labels[other]
    gains = would_be.astype(int) - is_right
    if gains.mean() < max(LEAST_GAIN, SPREADS * gains.std() / np.sqrt(count)):
        return Finding(
            check,
            OK,
            f"The order {', '.join(map(repr, class_names[:4]))}"
            f"{'…' if len(class_names) > 4 else ''} fits the teacher: no other "
            "explains its answers much better.",
        )
    order = _best_order(labels, predictions, len(class_names))
    moved = "; ".join(
        f"the teacher's class {their} is this data's {class_names[our]!r}"
        for their, our in enumerate(order)
        if their != our and their in predictions
    )
    if words is not None:
        listed = shlex.join(words[our] for our in order)
        advice = (
            "List the labels in the teacher's order (as labels in a TOML "
            f"file): --labels {listed}"
        )
    return Finding(
        check,
        RUINS,
        f"{100 * is_right.mean():.1f} % of {count} rows are right as it is, "
        f"{100 * would_be.mean():.1f} % in another order: {moved}. "
        "Each half of the rows was scored with the order of the other half.",
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


LOGITS_CHECK = "teacher logits"
FEWEST_EXAMPLES = 10
SUM_TOLERANCE = 1e-3  # of the sum of probabilities, in 16 bits


def teacher_logits(logits: np.ndarray, check: str = LOGITS_CHECK) -> Finding:
    """Checks whether a teacher's outputs are probabilities.

    Losses apply a softmax to logits, and would apply it a second time.

    Args:
        logits: finite float array of shape `(num_answers, num_classes)`, with
            at least two classes.
        check: string, as in `Finding`. Defaults to `"teacher logits"`.
    """
    count, least, most = len(logits), float(logits.min()), float(logits.max())
    found = f"Those of {count} answers go from {least:.2f} to {most:.2f}"
    sums = logits.astype("float64").sum(axis=-1)
    if least < 0 or np.abs(sums - 1).max() > SUM_TOLERANCE:
        return Finding(check, OK, f"{found}: not probabilities.")
    if count < FEWEST_EXAMPLES:
        return Finding(check, NOTE, f"{found}: too few to decide.")
    return Finding(
        check,
        RUINS,
        f"{found}, and each one's sum to 1: they are probabilities, not "
        "logits.",
        "Remove the softmax from the teacher. Otherwise its soft labels are "
        "nearly equal for all classes.",
    )


AT_REST = "teacher at rest"
FROZEN = "teacher frozen"
DRAWS = "seed_generator"  # in the names of random states
DIFFERENCE_TOLERANCE = 1e-4  # of the largest logit: GPUs add up in any order


def teacher_at_rest(teacher, forward, inputs, check: str = AT_REST) -> Finding:
    """Determinism check: runs a teacher twice on the same batch.

    Args:
        teacher: `keras.Model`.
        forward: callable from a batch to the teacher's logits.
        inputs: dict. A batch.
        check: string, as in `Finding`. Defaults to `"teacher at rest"`.
    """
    before = _fingerprint(teacher)
    first, second = (np.asarray(forward(inputs), "float64") for _ in range(2))
    changed = [
        name
        for (name, old), (_, new) in zip(
            before, _fingerprint(teacher), strict=True
        )
        if old != new
    ]
    if changed:
        return Finding(
            check,
            RUINS,
            f"Running it changes {len(changed)} of its {len(before)} weights, "
            f"such as {changed[0]}.",
            "A layer updates itself in inference. Remove the layer, or make it "
            "respect `training`.",
        )
    scale = max(float(np.abs(first).max()), 1.0)
    difference = float(np.abs(first - second).max())
    if difference > DIFFERENCE_TOLERANCE * scale:
        return Finding(
            check,
            RUINS,
            "The same batch gives other logits the second time: they differ by "
            f"up to {difference:.2g}.",
            "A layer, such as a dropout, is random in inference. Make it "
            "respect `training`.",
        )
    return Finding(
        check,
        OK,
        f"Two passes over {len(first)} rows differ by {difference:.1g}, and "
        f"change none of its {len(before)} weights.",
    )


def teacher_frozen(teacher, student) -> Finding:
    """Checks whether training a student would also train its teacher.

    Args:
        teacher: `keras.Model`.
        student: `keras.Model`.
    """
    trained = {id(weight) for weight in student.trainable_weights}
    shared = [w.path for w in teacher.weights if id(w) in trained]
    if shared:
        return Finding(
            FROZEN,
            RUINS,
            f"{len(shared)} of its weights are the student's too, such as "
            f"{shared[0]}, and would be trained.",
            "Copy the layers instead of using them twice.",
        )
    return Finding(
        FROZEN,
        OK,
        f"None of its {len(teacher.weights)} weights is among the "
        f"{len(trained)} trained ones.",
    )


def _fingerprint(model):
    """Returns name and checksum of every weight, without random states."""
    return [
        (
            weight.path,
            zlib.crc32(
                np.ascontiguousarray(keras.ops.convert_to_numpy(weight))
            ),
        )
        for weight in model.weights
        if DRAWS not in weight.path
    ]


WEIGHTS_CHECK = "student weights"


def finite_weights(model) -> Finding:
    """Looks for weights in a model that are not finite.

    Args:
        model: `keras.Model`.
    """
    broken = [
        weight.path
        for weight in model.weights
        if not np.isfinite(keras.ops.convert_to_numpy(weight)).all()
    ]
    if not broken:
        return Finding(
            WEIGHTS_CHECK, OK, f"All {len(model.weights)} of them are finite."
        )
    return Finding(
        WEIGHTS_CHECK,
        RUINS,
        f"{len(broken)} of {len(model.weights)} are not finite, such as "
        f"{broken[0]}.",
        "The student's initial weights have diverged. Train them again with a "
        "smaller learning rate, or start from another model.",
    )
