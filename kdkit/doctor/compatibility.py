"""Checks that teacher and student fit: sizes, blocks, vocabularies."""

from collections.abc import Iterable

from kdkit.distillation.layer_maps import layer_map
from kdkit.doctor.findings import NOTE, OK, RUINS, WARNING, Finding
from kdkit.models import require_same_ids
from kdkit.reporting.formatting import millions, times, words
from kdkit.taps import PER_LAYER_TAPS, ModelShape, split_tap

INITIAL_SPREAD = 0.02  # standard deviation of random weights, as in BERT
# How far weights must move to learn: all of a model, or the head alone.
LEAST_WAY = 2.5 * INITIAL_SPREAD
LEAST_WAY_OF_HEAD = 0.5 * INITIAL_SPREAD


def student_size(teacher: dict, student: dict) -> Finding:
    """Compares the numbers of parameters of teacher and student.

    Args:
        teacher: dict with `name` and `parameters`, the result of
            `kdkit.models.architectures.architecture`.
        student: dict of the same kind.

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
        return Finding("student size", OK, f"{found}{times(ratio)} smaller.")
    return Finding(
        "student size",
        WARNING,
        f"{found}not smaller, {times(1 / ratio)} the teacher.",
        "Choose fewer blocks or less width, with --student or --set "
        "student.num_layers=N.",
    )


def few_updates(
    updates: Iterable[tuple[int, float]],
    only_head: bool = False,
    is_trial: bool = False,
) -> Finding:
    """Checks whether random weights get enough updates.

    Adam moves a weight by about its learning rate in each update, whatever the
    gradient is. So all updates together move it by at most the sum of their
    rates. Random weights have a standard deviation of 0.02. A rule of thumb: if
    that sum is below 2.5 times that, 0.05, the student hardly changes and
    predicts the most frequent class. The sum is reached by 2,000 updates with a
    rate that falls from 5e-5 to 0, or by 100 updates with 1e-3. Among the runs
    from random weights in docs/measured/results.md, the one with the smallest
    sum, 0.105, did learn. For a new head on copied layers the limit is 0.01:
    students of three layers predicted one class until a sum of 0.006 to 0.01,
    and learned from 0.016 on (docs/measured/small_tables.md).

    Args:
        updates: iterable of pairs of a number of updates and their mean rate,
            one per stage.
        only_head: bool. Whether only the head has random weights. Defaults to
            `False`.
        is_trial: bool. Whether the run only tries things out; the finding is
            then a note. Defaults to `False`.

    >>> few_updates([(345, 2.5e-5)]).outcome
    'warning'
    """
    updates = list(updates)
    count = sum(number for number, _ in updates)
    way = sum(number * rate for number, rate in updates)
    least = LEAST_WAY_OF_HEAD if only_head else LEAST_WAY
    start = "a new head" if only_head else "random weights"
    found = (
        f"The student starts from {start}, of a standard deviation of "
        f"{INITIAL_SPREAD:g}; {count} updates move each by {way:.2g} at most."
    )
    if way >= least:
        return Finding("updates", OK, found)
    needed = "more" if not way else f"{count * least / way:.0f}"
    return Finding(
        "updates",
        NOTE if is_trial else WARNING,
        found,
        "Such a student seldom learns more than the most frequent class. It "
        f"needs about {needed} updates at these rates: set more epochs, a "
        "larger learning rate (such as stages.NAME.learning_rate=3e-4), or "
        "start it from a checkpoint (--student, --general).",
    )


def compared_layers(
    stage: str,
    objectives: Iterable,
    teacher: ModelShape,
    student: ModelShape,
) -> Finding:
    """Lists the blocks and widths that objectives compare.

    Args:
        stage: string. The name of the objectives' stage.
        objectives: iterable of `kdkit.Objective`.
        teacher: `kdkit.taps.ModelShape`.
        student: `kdkit.taps.ModelShape`.
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
        parts.append("no blocks are compared, only outputs")
    if None not in (student.num_classes, teacher.num_classes):
        parts.append(f"logits {student.num_classes} and {teacher.num_classes}")
    return Finding("layers", OK, f"{words(stage)}: {'; '.join(parts)}.")


CHECK = "vocabulary"


def same_vocabulary(
    teacher,
    other,
    name: str,
) -> Finding:
    """Compares two tokenizers.

    Args:
        teacher: the teacher's tokenizer.
        other: the other model's tokenizer.
        name: string. The other model's name in the finding.

    Raises:
        UsageError: (a `ValueError`) if ids mean different words to them.
    """
    size = teacher.vocabulary_size()
    if teacher is other:
        return Finding(
            CHECK,
            OK,
            f"{size} ids, one tokenizer for teacher and {name}.",
        )
    require_same_ids(teacher, other)
    return Finding(
        CHECK,
        OK,
        f"All {size} ids, including special ones, are the same words "
        f"for teacher and {name}.",
    )


def table_size(tokenizer, rows: int | None, name: str) -> Finding | None:
    """Compares the size of a model's embeddings with its vocabulary.

    Args:
        tokenizer: a tokenizer.
        rows: int or `None`. Number of embeddings, `None` if there are none.
        name: string. The model's name in the finding.

    Returns:
        A `Finding`, or `None` if the sizes are equal.
    """
    size = tokenizer.vocabulary_size()
    if rows is None or rows == size:
        return None
    if rows < size:
        return Finding(
            "token table",
            RUINS,
            f"The {name} has embeddings for {rows} ids, but its tokenizer has "
            f"{size}.",
            "Use the tokenizer that the model was trained with.",
        )
    return Finding(
        "token table",
        NOTE,
        f"The {name} has embeddings for {rows} ids, {rows - size} more than "
        "its tokenizer has; they are never used.",
    )
