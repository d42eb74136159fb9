"""Layer maps: which teacher block each student block learns from."""

from collections.abc import Mapping

from kdkit.errors import UsageError, unknown

NAMES = ("uniform", "spread", "top", "bottom", "skip", "last", "final")


def layer_map(
    spec: str | Mapping[int, int], teacher_layers: int, student_layers: int
) -> dict[int, int]:
    """Maps student blocks to teacher blocks: TinyBERT's g(m), PKD's I_pt.

    Blocks are counted from 1. Index 0, the embedding output, is never in a
    map; see `include_embeddings` in `kdkit.Objective`.

    - `"uniform"`: evenly spaced, the final block to the final block. If one
      depth is not a multiple of the other, the nearest block (halves go up).
    - `"spread"`: evenly from the first block to the final one, as DistilBERT
      copies them: six of 12 are 1, 3, 5, 8, 10 and 12. One is the final one.
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
    if isinstance(spec, Mapping):
        pairs = _explicit(spec, teacher_layers, student_layers)
    else:
        pairs = _named(spec, teacher_layers, student_layers)
    if not pairs:
        raise UsageError(
            f"Layer map {spec!r} has no pair for {student_layers} student "
            f"layers and {teacher_layers} teacher layers."
        )
    return pairs


def _named(spec, teacher_layers, student_layers):
    """Returns the pairs of a map with a name."""
    if spec not in NAMES:
        raise unknown("layer map", spec, NAMES)
    if student_layers > teacher_layers:
        raise UsageError(
            f"Layer map {spec!r} needs a student no deeper than its teacher, "
            f"received {student_layers} and {teacher_layers} layers. Pass "
            "explicit pairs."
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
    elif spec == "spread":
        # N - (M - m) (N - 1) / (M - 1), rounded (halves go down).
        gaps = max(student_layers - 1, 1)
        pairs = {
            block: teacher_layers
            - (2 * (student_layers - block) * (teacher_layers - 1) + gaps)
            // (2 * gaps)
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


def _explicit(pairs, teacher_layers, student_layers):
    """Checks explicit pairs and returns them in order of student blocks."""
    for block, teacher_block in pairs.items():
        if block not in range(
            1, student_layers + 1
        ) or teacher_block not in range(1, teacher_layers + 1):
            raise UsageError(
                f"Layer map {dict(pairs)} is out of range for {student_layers} "
                f"student layers and {teacher_layers} teacher layers."
            )
    return {int(student): int(pairs[student]) for student in sorted(pairs)}
