"""Tells a full or failing disk from other errors."""

import errno
import os

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def disk_problem(error: BaseException) -> bool:
    """Whether an exception is that of a full or failing disk."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in FULL
    # h5py, safetensors and TensorFlow only pass on the system's text.
    return any(os.strerror(number) in str(error) for number in FULL)
