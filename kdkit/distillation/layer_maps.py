"""Layer maps: which teacher block each student block learns from."""

import numbers
from collections.abc import Mapping

from kdkit.errors import UsageError, shortened

NAMES = ("uniform", "top", "bottom", "skip", "last", "final")


def layer_map(
    spec: str | Mapping[int, int], teacher_layers: int, student_layers: int
) -> dict[int, int]:
    """Maps student blocks to teacher blocks: TinyBERT's g(m), PKD's I_pt.

    Blocks are counted from 1. Index 0, the embedding output, is never in a
    map; see `include_embeddings` in `kdkit.Objective`.

    - `"uniform"`: evenly spaced, the final block to the final block. If one
      depth is not a multiple of the other, the nearest block (halves go up).
    - `"top"`: the teacher's last blocks. `"bottom"`: its first ones.
    - `"skip"`, `"last"`: `"uniform"` and `"top"` without the final student
      block, whose output already decides the logits (PKD, section 3.2).
    - `"final"`: only the final block to the final block (DistilBERT).

    Args:
        spec: string, one of the names above, or explicit pairs as a dict from
            student block to teacher block.
        teacher_layers: int. The number N of teacher blocks.
        student_layers: int. The number M of student blocks.

    Returns:
        A dict from student block to teacher block, in order of student blocks.

    Raises:
        UsageError: (a `ValueError`) if the student is deeper than the teacher,
            the name is unknown, a block is out of range, or the map is empty.

    Example:

    >>> kdkit.layer_map("uniform", teacher_layers=12, student_layers=4)
    {1: 3, 2: 6, 3: 9, 4: 12}
    >>> kdkit.layer_map("skip", teacher_layers=12, student_layers=3)
    {1: 4, 2: 8}

    References:
     - [Jiao et al., 2019](https://arxiv.org/abs/1909.10351), section 4
     - [Sun et al., 2019](https://arxiv.org/abs/1908.09355), section 3.2
    """
    received = (
        f"teacher_layers={teacher_layers}, student_layers={student_layers}"
    )
    if student_layers < 1 or teacher_layers < 1:
        raise UsageError(
            "A layer map needs models with at least one layer each. "
            f"Received: {received}. Build both models with blocks."
        )
    if isinstance(spec, Mapping):
        return _explicit(spec, teacher_layers, student_layers, received)
    if spec not in NAMES:
        raise UsageError(
            f"Unknown layer map. Expected one of {NAMES} or explicit pairs "
            f"such as {{1: 3, 2: 6}}. Received: {spec!r}."
        )
    if student_layers > teacher_layers:
        raise UsageError(
            f'Layer map "{spec}" needs a student no deeper than its teacher. '
            f"Received: {received}. Pass explicit pairs, for example "
            f"layer_map={{1: 1, {student_layers}: {teacher_layers}}}."
        )
    if spec in ("skip", "last") and student_layers == 1:
        raise UsageError(
            f'Layer map "{spec}" needs at least 2 student layers. '
            f"Received: {received}. "
            f"Pass explicit pairs, for example layer_map={{1: "
            f"{teacher_layers}}}."
        )
    if spec == "final":
        return {student_layers: teacher_layers}
    blocks = range(1, student_layers + 1)
    if spec in ("uniform", "skip"):
        # Nearest block in integers: floor(m N / M + 1/2). Steps are at least
        # 1 because N >= M, so the map is strictly increasing.
        pairs = {
            block: (2 * block * teacher_layers + student_layers)
            // (2 * student_layers)
            for block in blocks
        }
    elif spec in ("top", "last"):
        pairs = {
            block: block + teacher_layers - student_layers for block in blocks
        }
    else:
        pairs = {block: block for block in blocks}
    if spec in ("skip", "last"):
        del pairs[student_layers]
    return pairs


def numbered_blocks(pairs: Mapping) -> dict[int, int]:
    """Returns explicit pairs with int keys, also from JSON's string keys."""
    try:
        numbered = {int(str(key)): block for key, block in pairs.items()}
    except ValueError:
        numbered = {}
    if len(numbered) < len(pairs):
        raise UsageError(
            "Invalid layer_map. Expected a dict from student block, counted "
            "from 1, to teacher block, for example {1: 3, 2: 6}. "
            f"Received: {shortened(dict(pairs))}."
        )
    return numbered


def _explicit(pairs, teacher_layers, student_layers, received):
    """Checks explicit pairs and returns them in order of student blocks."""
    if not pairs:
        raise UsageError(
            "An explicit layer map needs at least one pair. Received: {}. "
            f"Pass e.g. layer_map={{{student_layers}: {teacher_layers}}}."
        )
    wrong = {
        student: teacher
        for student, teacher in pairs.items()
        if not _is_block(student, student_layers)
        or not _is_block(teacher, teacher_layers)
    }
    if wrong:
        raise UsageError(
            "Layer map has blocks out of range. Expected student blocks from "
            f"1 to {student_layers} and teacher blocks from 1 to "
            f"{teacher_layers}. Received: {wrong} with {received}. For the "
            "embedding output use include_embeddings=True."
        )
    return {int(student): int(pairs[student]) for student in sorted(pairs)}


def _is_block(value, num_layers):
    return (
        isinstance(value, numbers.Integral)
        and not isinstance(value, bool)
        and 1 <= value <= num_layers
    )
