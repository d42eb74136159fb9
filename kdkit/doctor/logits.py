"""Whether what a teacher gives are logits."""

import numpy as np

from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import Finding

CHECK = "teacher logits"
FEWEST_ANSWERS = 10
TOLERANCE = 1e-3  # of the sum of probabilities, in 16 bits


def teacher_logits(logits: np.ndarray, check: str = CHECK) -> Finding:
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
    if least < 0 or np.abs(sums - 1).max() > TOLERANCE:
        return Finding(check, OK, f"{found}: no probabilities.")
    if count < FEWEST_ANSWERS:
        return Finding(check, NOTE, f"{found}: too few to tell what they are.")
    return Finding(
        check,
        RUINS,
        f"{found}, and each one's sum to 1: they are probabilities, not "
        "logits.",
        "Take the softmax out of the teacher, or its softened answers are "
        "nearly alike for all classes.",
    )
