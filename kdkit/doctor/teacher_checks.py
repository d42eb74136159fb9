"""Whether a teacher knows its task: beside the most frequent class."""

import zlib

import keras
import numpy as np
import scipy.optimize
import sklearn.metrics

from kdkit.doctor.data import are_alike
from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import WARNING
from kdkit.doctor.findings import Finding
from kdkit.doctor.findings import share
from kdkit.tasks import Regression
from kdkit.tasks import Task
from kdkit.tasks.baseline import FEWEST_ANSWERS

ACCURACY_CHECK = "teacher accuracy"
RETRAIN = (
    "Use a teacher that was fine-tuned on this task: kdkit train-teacher, or "
    "more epochs or another learning rate of it."
)


def teacher_accuracy(
    task: Task,
    targets,
    logits: np.ndarray,
    constant: float | None = None,
    check: str = ACCURACY_CHECK,
) -> Finding:
    """Compares a teacher's answers on dev with one answer for all rows.

    The run is ruined where the teacher is no better and its answers do not
    depend on the labels, or depend on them the wrong way round; not for
    generated sentences, which are for trying things out, or fewer than 100
    answers, which cannot tell. Labels that are all alike are compared with
    nothing.

    Args:
        task: `kdkit.tasks.Task`.
        targets: labels as `Task.compute_metrics` takes them.
        logits: float array of shape `(num_labels, num_classes)`.
        constant: float or `None`. The accuracy that takes no model, where it
            is not that of the most frequent class. Defaults to `None`.
        check: string, as in `Finding`. Defaults to `"teacher accuracy"`.
    """
    broken = int((~np.isfinite(logits)).any(axis=-1).sum())
    if broken:
        return Finding(
            check,
            RUINS,
            f"The logits of {broken} of {len(logits)} answers are not finite.",
            "The teacher has diverged. Train it anew, with a smaller learning "
            "rate.",
        )
    if are_alike(task, targets):
        return Finding(
            check,
            NOTE,
            f"The labels of {len(targets)} rows are all alike, so that one "
            "answer for all of them is right: its own tell nothing.",
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
            "Its answers run against the labels. Check the order of the "
            "classes, in labels.txt where the task has one.",
        )
    if not is_better:
        return Finding(
            check,
            WARNING,
            found,
            "It knows something of the labels and names classes too often or "
            "too seldom. Look at the balance of the classes.",
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
    """Whether a bad teacher ruins anything, and that can be told."""
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
        others = "each class' usual answer"
    return (
        f"Of {count} answers {share(baseline.model, 1)} are right; {others} "
        f"alone would be in {share(level, 1)}. Correlation with the labels "
        f"{baseline.correlation:.2f}."
    )


LABEL_ORDER_CHECK = "label order"
ADVICE = (
    "In a task with a labels.txt, put its lines in the teacher's order, class "
    "0 first. Otherwise reorder the rows of the teacher's last layer, or "
    "fine-tune a teacher on this data."
)
LEAST_GAIN = 0.1  # of accuracy; below it, the order is not what is wrong
LEAST_ROWS = 10  # fewer are all wrong by chance
SPREADS = 4  # more than chance gives the best of many orders


def label_order(
    class_names: tuple[str, ...],
    labels: np.ndarray,
    predictions: np.ndarray,
    check: str = LABEL_ORDER_CHECK,
    advice: str = ADVICE,
) -> Finding:
    """Looks for an order of the classes that explains a bad accuracy.

    Of all orders the one with the highest accuracy is found in the confusion
    matrix, as an assignment of the teacher's classes to the data's. Of many
    classes the best of all orders always fits the rows that it was found in:
    each half of the rows, and of each class, is counted with the order that was
    found in the other half. The order that is named is that of all rows.

    Args:
        class_names: tuple of strings. The data's classes by their numbers.
        labels: int array of shape `(num_rows,)`.
        predictions: int array of shape `(num_rows,)`. The teacher's classes.
        check: string, as in `Finding`. Defaults to `"label order"`.
        advice: string, as in `Finding`, where another order is better.
            Defaults to what helps where the teacher may be wrong.

    >>> label_order(("bad", "good"), np.arange(40) % 2, 1 - np.arange(40) % 2)
    Finding(check='label order', outcome='ruins the run', ...
    """
    count = len(labels)
    if count < LEAST_ROWS:
        return Finding(
            check, NOTE, f"{count} rows are too few to tell an order by."
        )
    if np.ptp(labels) == 0:
        return Finding(check, NOTE, f"{count} rows of one class tell no order.")
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
    return Finding(
        check,
        RUINS,
        f"{100 * is_right.mean():.1f} % of {count} rows are right as it "
        f"stands, {100 * would_be.mean():.1f} % in another order: {moved}. "
        "Each half of the rows was counted in the order of the other half.",
        advice,
    )


def _best_order(labels, predictions, num_classes):
    """The data's class of each of the teacher's; its own where it is alike."""
    confusion = sklearn.metrics.confusion_matrix(
        predictions, labels, labels=range(num_classes)
    )
    # Less than a row in all, so that it decides between equal orders alone.
    stays = np.eye(num_classes) / (num_classes + 1)
    _, order = scipy.optimize.linear_sum_assignment(
        confusion + stays, maximize=True
    )
    return order


LOGITS_CHECK = "teacher logits"
FEWEST_EXAMPLES = 10
SUM_TOLERANCE = 1e-3  # of the sum of probabilities, in 16 bits


def teacher_logits(logits: np.ndarray, check: str = LOGITS_CHECK) -> Finding:
    """Looks whether a teacher's outputs are probabilities.

    Losses make these of logits, and would do so once more.

    Args:
        logits: finite float array of shape `(num_answers, num_classes)`, of
            two classes and more.
        check: string, as in `Finding`. Defaults to `"teacher logits"`.
    """
    count, least, most = len(logits), float(logits.min()), float(logits.max())
    found = f"Those of {count} answers go from {least:.2f} to {most:.2f}"
    sums = logits.astype("float64").sum(axis=-1)
    if least < 0 or np.abs(sums - 1).max() > SUM_TOLERANCE:
        return Finding(check, OK, f"{found}: no probabilities.")
    if count < FEWEST_EXAMPLES:
        return Finding(check, NOTE, f"{found}: too few to tell what they are.")
    return Finding(
        check,
        RUINS,
        f"{found}, and each one's sum to 1: they are probabilities, not "
        "logits.",
        "Take the softmax out of the teacher, or its softened answers are "
        "nearly alike for all classes.",
    )


AT_REST = "teacher at rest"
FROZEN = "teacher frozen"
DRAWS = "seed_generator"  # in the names of states that draws change
DIFFERENCE_TOLERANCE = (
    1e-4  # of the largest logit: sums on GPUs come in any order
)


def teacher_at_rest(teacher, forward, inputs, check: str = AT_REST) -> Finding:
    """Runs a teacher twice on the same batch.

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
            "A layer of it updates itself in inference. Take the layer out, "
            "or have it look at `training`.",
        )
    scale = max(float(np.abs(first).max()), 1.0)
    difference = float(np.abs(first - second).max())
    if difference > DIFFERENCE_TOLERANCE * scale:
        return Finding(
            check,
            RUINS,
            "The same batch gives other logits the second time: they differ by "
            f"up to {difference:.2g}.",
            "A layer of it, such as a dropout, draws in inference. Have it "
            "look at `training`.",
        )
    return Finding(
        check,
        OK,
        f"Two passes over {len(first)} rows differ by {difference:.1g}, and "
        f"change none of its {len(before)} weights.",
    )


def teacher_frozen(teacher, student, check: str = FROZEN) -> Finding:
    """Looks whether training a student would train its teacher.

    Args:
        teacher: `keras.Model`.
        student: `keras.Model`.
        check: string, as in `Finding`. Defaults to `"teacher frozen"`.
    """
    trained = {id(weight) for weight in student.trainable_weights}
    shared = [w.path for w in teacher.weights if id(w) in trained]
    if shared:
        return Finding(
            check,
            RUINS,
            f"{len(shared)} of its weights are the student's too, such as "
            f"{shared[0]}, and would be trained.",
            "Copy the layers instead of using them twice.",
        )
    return Finding(
        check,
        OK,
        f"None of its {len(teacher.weights)} weights is among the "
        f"{len(trained)} that are trained.",
    )


def _fingerprint(model):
    """Name and checksum of every weight, but for the states of draws."""
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


def finite_weights(model, check: str = WEIGHTS_CHECK) -> Finding:
    """Looks for weights of a model that are not finite.

    Args:
        model: `keras.Model`.
        check: string, as in `Finding`. Defaults to `"student weights"`.
    """
    broken = [
        weight.path
        for weight in model.weights
        if not np.isfinite(keras.ops.convert_to_numpy(weight)).all()
    ]
    if not broken:
        return Finding(
            check, OK, f"All {len(model.weights)} of them are finite."
        )
    return Finding(
        check,
        RUINS,
        f"{len(broken)} of {len(model.weights)} are not finite, such as "
        f"{broken[0]}.",
        "What the student begins with has diverged. Train it anew, with a "
        "smaller learning rate, or begin with another one.",
    )
