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
    "Put the rows of the teacher's last layer, or the labels of the data, into "
    "the other's order; or fine-tune a teacher on this data."
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
    matrix, as an assignment of the teacher's classes to the data's.

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
    confusion = sklearn.metrics.confusion_matrix(
        labels, predictions, labels=range(len(class_names))
    )
    theirs, ours = scipy.optimize.linear_sum_assignment(
        confusion.T, maximize=True
    )
    now = np.trace(confusion) / count
    best = confusion.T[theirs, ours].sum() / count
    # Of the differences row by row, which are 1, 0 and -1.
    spread = np.sqrt(max(now + best - (best - now) ** 2, 0) / count)
    if best - now < max(LEAST_GAIN, SPREADS * spread):
        return Finding(
            check,
            OK,
            f"The order {', '.join(map(repr, class_names[:4]))}"
            f"{'…' if len(class_names) > 4 else ''} fits the teacher: no other "
            "explains its answers much better.",
        )
    moved = "; ".join(
        f"the teacher's class {their} is this data's {class_names[our]!r}"
        for their, our in zip(theirs, ours, strict=True)
        if their != our and confusion[:, their].any()
    )
    return Finding(
        check,
        RUINS,
        f"{100 * now:.1f} % of {count} rows are right as it stands, "
        f"{100 * best:.1f} % in another order: {moved}.",
        advice,
    )
