"""Memory that a step frees and the next step asks for again."""

import ctypes
import os
import platform

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
