"""Sizes of teacher and student, and which blocks are compared."""

from collections.abc import Iterable

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
