"""How closely a student follows its teacher, whatever the labels say."""

import numpy as np
import scipy.special

from kdkit.errors import UsageError


def agreement(teacher_logits, student_logits) -> dict[str, float]:
    """Compares the logits of two models on the same rows.

    Args:
        teacher_logits: float array of shape `(num_rows, num_classes)`.
        student_logits: float array of the same shape.

    Returns:
        Dict with `"same_top_class"`, the share of rows with the same largest
        logit, and `"kl_divergence"`, the mean over rows of
        KL(teacher ‖ student) in nats at temperature 1; or, for one logit, with
        `"mean_squared_difference"`.

    >>> agreement([[2.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [1.0, 0.0]])[
    ...     "same_top_class"
    ... ]
    0.5
    """
    teacher, student = check_pair(teacher_logits, student_logits)
    if teacher.shape[1] == 1:
        difference = float(np.mean(np.square(teacher - student)))
        return {"mean_squared_difference": difference}
    teacher_log_probs = scipy.special.log_softmax(teacher, axis=1)
    student_log_probs = scipy.special.log_softmax(student, axis=1)
    divergences = np.sum(
        np.exp(teacher_log_probs) * (teacher_log_probs - student_log_probs),
        axis=1,
    )
    same = teacher.argmax(axis=1) == student.argmax(axis=1)
    return {
        "same_top_class": float(same.mean()),
        "kl_divergence": float(divergences.mean()),
    }


def check_pair(teacher_logits, student_logits):
    """Returns both as float64 arrays of one shape.

    Raises:
        UsageError: if the shapes differ, or there are no rows.
    """
    teacher = np.asarray(teacher_logits, "float64")
    student = np.asarray(student_logits, "float64")
    if teacher.shape != student.shape or teacher.ndim != 2 or not teacher.size:
        raise UsageError(
            "Agreement needs two arrays of the same shape (num_rows, "
            f"num_classes). Received: teacher_logits of shape {teacher.shape}, "
            f"student_logits of shape {student.shape}."
        )
    return teacher, student
