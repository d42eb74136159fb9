"""The seeds that there are."""

from kdkit.errors import UsageError

LARGEST_SEED = 2**32 - 1


def check_seed(seed: int) -> None:
    """Refuses a seed that random generators do not take.

    Args:
        seed: int.

    Raises:
        UsageError: (a `ValueError`) for one below 0 or of more than 32 bits.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise UsageError(
            f"Expected a seed from 0 to {LARGEST_SEED}. Received: seed={seed}."
        )
