"""Sizes of teacher and student, and which blocks are compared."""

from collections.abc import Iterable

from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import WARNING
from kdkit.doctor.findings import Finding
from kdkit.layer_maps import layer_map
from kdkit.reporting.formatting import millions
from kdkit.reporting.formatting import times
from kdkit.reporting.formatting import words
from kdkit.taps import PER_LAYER_TAPS
from kdkit.taps import ModelShape
from kdkit.taps import split_tap

INITIAL_SPREAD = 0.02  # standard deviation of random weights, as BERT's
LEAST_WAY = 2.5 * INITIAL_SPREAD  # of a weight, to learn anything by


def student_size(
    teacher: dict, student: dict, check: str = "student size"
) -> Finding:
    """Tells how much smaller a student is.

    Args:
        teacher: dict with `name` and `parameters`, as
            `kdkit.models.architecture` returns it.
        student: dict likewise.
        check: string, as in `Finding`. Defaults to `"student size"`.

    >>> student_size(
    ...     {"name": "BERT 12×768", "parameters": 109_482_240},
    ...     {"name": "BERT 4×312", "parameters": 14_350_248},
    ... ).found
    'BERT 4×312 of 14.35 M parameters from BERT 12×768 of 109.48 M: ...'
    """
    ratio = teacher["parameters"] / student["parameters"]
    found = (
        f"{student['name']} of {millions(student['parameters'])} M parameters "
        f"from {teacher['name']} of {millions(teacher['parameters'])} M: "
    )
    if ratio > 1:
        return Finding(check, OK, f"{found}{times(ratio)} smaller.")
    return Finding(
        check,
        WARNING,
        f"{found}no smaller, {times(1 / ratio)} the teacher.",
        "Choose fewer blocks or less width, with --student or --set "
        "student.num_layers=N.",
    )


def few_updates(
    updates: Iterable[tuple[int, float]],
    is_trial: bool = False,
    check: str = "updates",
) -> Finding:
    """Checks whether random weights get as many updates as they need.

    Adam moves a weight by about its learning rate in an update, whatever the
    gradient is, so all updates together move it by at most the sum of their
    rates. Random weights begin with a standard deviation of 0.02. A rule of
    thumb: where that way is shorter than 2.5 times that, 0.05, a student hardly
    leaves where it began and answers with the commonest class. It takes 2,000
    updates with a rate that falls from 5e-5 to 0, or 100 from 1e-3. Of the runs
    from random weights in docs/measured/results.md, the one of the shortest
    way, 0.105, has learned.

    Args:
        updates: iterable of pairs of a number of updates and their mean rate,
            one per stage.
        is_trial: bool. Whether the run only tries things out, which makes it a
            note. Defaults to `False`.
        check: string, as in `Finding`. Defaults to `"updates"`.

    >>> few_updates([(345, 2.5e-5)]).outcome
    'warning'
    """
    updates = list(updates)
    count = sum(number for number, _ in updates)
    way = sum(number * rate for number, rate in updates)
    found = (
        f"The student starts from random weights, of a standard deviation of "
        f"{INITIAL_SPREAD:g}; {count} updates move each by {way:.2g} at most."
    )
    if way >= LEAST_WAY:
        return Finding(check, OK, found)
    needed = "more" if not way else f"{count * LEAST_WAY / way:.0f}"
    return Finding(
        check,
        NOTE if is_trial else WARNING,
        found,
        "Such a student seldom gets beyond the commonest class. It takes about "
        f"{needed} updates at these rates: set more epochs, a larger learning "
        "rate (such as --set stages.0.learning_rate=3e-4), or start it from a "
        "checkpoint (--student, --general).",
    )


def compared_layers(
    stage: str,
    objectives: Iterable,
    teacher: ModelShape,
    student: ModelShape,
    check: str = "layers",
) -> Finding:
    """Tells which blocks and widths meet, of objectives that fit.

    Args:
        stage: string. The stage that they are of.
        objectives: iterable of `kdkit.Objective`.
        teacher: `kdkit.taps.ModelShape`.
        student: `kdkit.taps.ModelShape`.
        check: string, as in `Finding`. Defaults to `"layers"`.
    """
    maps = {}
    for objective in objectives:
        part, kind = split_tap(objective.tap)
        if kind in PER_LAYER_TAPS:
            pairs = layer_map(
                objective.layer_map,
                teacher.depth(objective.tap),
                student.depth(objective.tap),
            )
            title = f"{part} blocks" if part else "blocks"
            text = ", ".join(f"{our}→{their}" for our, their in pairs.items())
            maps[f"{title} {text} (student→teacher)"] = None
    parts = list(maps)
    if maps:
        parts.append(f"widths {student.hidden_dim} and {teacher.hidden_dim}")
        parts.append(f"heads {student.num_heads} and {teacher.num_heads}")
    if not parts:
        parts.append("no block is compared, only what comes out")
    if None not in (student.num_classes, teacher.num_classes):
        parts.append(f"logits {student.num_classes} and {teacher.num_classes}")
    return Finding(check, OK, f"{words(stage)}: {'; '.join(parts)}.")
