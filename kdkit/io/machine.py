"""This machine's memory, and sizes and times in readable units."""

import ctypes
import os
import pathlib
import platform

# Parameters of glibc's mallopt.
TRIM_THRESHOLD, MMAP_MAX = -1, -4
TWO_GIGABYTES = 2**31 - 1
# Environment variables by which users set these parameters themselves.
CHOICES = (
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
)


def keep_freed_memory() -> bool:
    """Lets glibc reuse freed memory instead of returning it, on Linux.

    A training step allocates and frees the same large tensors again and again:
    gradients of word embeddings, activations. glibc returns each of them to the
    system at once, and gets the memory back page by page, which the system
    fills with zeros first. A process that reuses its memory trains faster, most
    of all on virtual machines. The process then holds up to 2 GB of freed
    memory at the end of its heap until it ends, and more if memory behind it is
    in use.

    kdkit's command line calls this function in verbs that compute. In a script,
    call it before the first step.

    Returns:
        Whether the setting was changed. `False` without glibc, or if the
        environment already has a setting (`MALLOC_MMAP_MAX_`,
        `MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_` or a `glibc.malloc`
        entry in `GLIBC_TUNABLES`). So `MALLOC_MMAP_MAX_=65536`, glibc's
        default, turns the function off.

    Example:

    >>> import kdkit
    >>> kept = kdkit.keep_freed_memory()
    """
    if platform.libc_ver()[0] != "glibc" or _is_chosen():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(MMAP_MAX, 0) and mallopt(TRIM_THRESHOLD, TWO_GIGABYTES))


def _is_chosen():
    """Whether the environment has settings for glibc's memory."""
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return "glibc.malloc." in tunables or any(
        name in os.environ for name in CHOICES
    )


def processor() -> str:
    """The processor's name, or its architecture, and the number of cores."""
    file, mark = pathlib.Path("/proc/cpuinfo"), "model name"
    lines = file.read_text("utf-8").splitlines() if file.is_file() else ()
    names = [line.partition(":")[2] for line in lines if line.startswith(mark)]
    name, *_ = *names, platform.machine()
    return f"{name.strip()}, {os.cpu_count()} cores"


def duration(seconds: float) -> str:
    """Returns a duration in its two largest units."""
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
    """Returns a size in readable units."""
    if size < 1e9:
        return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
    return f"{size / 1e9:.1f} GB"
