"""The checks of a run, in the order of their rows.

Each is a function of an `Examined` run that yields tuples of an outcome, the
facts, and the advice, which counts where the outcome is not ok.
"""

from kdkit.doctor import data, teachers, training
from kdkit.doctor.examined import Examined
from kdkit.doctor.findings import OK, Finding

CHECKS = (
    teachers.teacher_accuracy,
    teachers.teacher_logits,
    teachers.dev_set_aside,
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
    run, findings = Examined(kind), []
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        for outcome, found, advice in check(run):
            advice = "" if outcome == OK else advice
            findings.append(Finding(name, outcome, found, advice))
    return findings
