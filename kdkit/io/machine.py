"""This machine's memory, and sizes and times in readable units."""

import ctypes
import os
import platform

import psutil


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


# Of glibc's mallopt.
TRIM_THRESHOLD, MMAP_MAX = -1, -4
TWO_GIGABYTES = 2**31 - 1
# Those who set these have chosen for themselves.
CHOICES = (
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
)


def keep_freed_memory() -> bool:
    """Keeps what is freed for what is allocated next, on Linux with glibc.

    A training step allocates and frees the same large tensors again and again:
    gradients of word embeddings, activations. glibc gives each of them back to
    the system at once, and takes it anew page by page, each of which the system
    fills with zeros first. A process that keeps them trains faster, on virtual
    machines by far: see `benchmarks/allocation.py` in
    docs/measured/performance.md. What it keeps is for the rest of its life,
    2 GB of freed memory at most at the end of its heap, and more where
    something that is used lies behind it.

    Kdkit's command line does this in verbs that compute. In a script, call it
    before the first step.

    Returns:
        Whether it was done. `False` without glibc, and where the environment
        says how memory is to be kept (`MALLOC_MMAP_MAX_`,
        `MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_` or a `glibc.malloc`
        entry of `GLIBC_TUNABLES`); `MALLOC_MMAP_MAX_=65536`, which is glibc's
        own default, thus turns it off.

    Example:

    >>> import kdkit
    >>> kept = kdkit.keep_freed_memory()
    """
    if platform.libc_ver()[0] != "glibc" or _is_chosen():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(MMAP_MAX, 0) and mallopt(TRIM_THRESHOLD, TWO_GIGABYTES))


def _is_chosen():
    """Whether the environment says how memory is to be kept."""
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return "glibc.malloc." in tunables or any(
        name in os.environ for name in CHOICES
    )


def duration(seconds: float) -> str:
    """Returns a span of time in the two units that matter.

    >>> duration(4.23), duration(75), duration(5000)
    ('4.2 s', '1 min 15 s', '1 h 23 min')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def byte_size(size: float) -> str:
    """Returns a size as people say it.

    >>> byte_size(57_400_000), byte_size(2.5e9)
    ('57 MB', '2.5 GB')
    """
    if size < 1e9:
        return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
    return f"{size / 1e9:.1f} GB"
