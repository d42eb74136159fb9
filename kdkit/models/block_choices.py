"""Which of an encoder's blocks a student starts from."""

from kdkit.errors import UsageError

RULES = ("first", "spread")


def choose_blocks(rule, num_blocks, num_copied) -> tuple[int, ...]:
    """Names the blocks of an encoder that a shallower one starts from.

    - `"first"`: the first ones, as in Patient KD.
    - `"spread"`: from the first to the last, evenly, as in DistilBERT, where
      of 12 blocks the six are 1, 3, 5, 8, 10 and 12.

    Args:
        rule: string. One of the names above.
        num_blocks: int. Blocks of the encoder.
        num_copied: int. Blocks of the student.

    Returns:
        Tuple of ints, counted from 1.

    Raises:
        UsageError: (a `ValueError`) if the rule is unknown or the student has
            no blocks or more than the encoder.

    >>> choose_blocks("first", num_blocks=12, num_copied=3)
    (1, 2, 3)
    >>> choose_blocks("spread", num_blocks=6, num_copied=3)
    (1, 3, 6)
    """
    if rule not in RULES:
        raise UsageError(
            f"Unknown choice of blocks. Expected one of {RULES}. Received: "
            f"{rule!r}."
        )
    if not 1 <= num_copied <= num_blocks:
        raise UsageError(
            f"A student of an encoder's own blocks has 1 to {num_blocks} of "
            f"them here. Received: {num_copied} blocks."
        )
    if rule == "first":
        return tuple(range(1, num_copied + 1))
    if num_copied == 1:
        return (1,)
    # i (N - 1) / (M - 1) to the nearest integer, halves down, plus 1.
    gaps = num_copied - 1
    return tuple(
        -((gaps - 2 * index * (num_blocks - 1)) // (2 * gaps)) + 1
        for index in range(num_copied)
    )
