"""What this machine can hold."""

import psutil

from kdkit.quantities import byte_size


def lack_of_memory(num_bytes: int) -> str | None:
    """Returns how much there is too little of, `None` where it is enough.

    Args:
        num_bytes: int. What is to stand in memory at once, at least.

    >>> lack_of_memory(10**18)[:24]
    '1000000000.0 GB at least'
    """
    total = psutil.virtual_memory().total
    if num_bytes <= total:
        return None
    return (
        f"{byte_size(num_bytes)} at least, and this machine has "
        f"{byte_size(total)} of memory"
    )
