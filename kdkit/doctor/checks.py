"""The checks of a run, in the order of their rows."""

from kdkit.doctor import data, teachers, training
from kdkit.doctor.examined import Examined
from kdkit.doctor.findings import Finding

CHECKS = (
    teachers.teacher_accuracy,
    teachers.teacher_logits,
    teachers.label_order,
    data.rows_kept_apart,
    data.quoted_cells,
    data.unknown_words,
    data.truncated_examples,
    training.updates,
    training.memory,
)


def examine(kind) -> list[Finding]:
    """Runs all checks on what a run has built.

    Args:
        kind: the run's kind, from `kdkit.runs.build.build`.

    Returns:
        List of `Finding`. A check that does not apply to a kind has none.
    """
    run = Examined(kind)
    return [
        Finding(check.__name__.replace("_", " "), *found)
        for check in CHECKS
        for found in check(run)
    ]
