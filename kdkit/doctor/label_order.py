"""Whether a teacher's classes are in another order than the data's."""

import numpy as np
import scipy.optimize
import sklearn.metrics

from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import Finding

CHECK = "label order"
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
    check: str = CHECK,
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
