"""Standard output and error that others closed: a verb goes on without them."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator


class _Pipe(io.FileIO):
    """Writes to a pipe, and to nowhere when its reader is gone."""

    def write(self, data):
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            # What C++ writes goes nowhere, too, and so does the last flush.
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


@contextlib.contextmanager
def open_streams() -> Iterator[None]:
    """Keeps standard output and error usable in the block.

    A run of hours does not stop since the reader of its output did. Where
    standard error is closed, what belongs there goes to standard output.
    Streams that a program put in their place are left as they are.
    """
    _occupy()
    if sys.stdout is None:  # closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = sys.stdout
    replaced = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):
            continue
        stream.flush()
        setattr(sys, name, _as_pipe(stream))
        replaced.append((name, stream))
    try:
        yield
    finally:
        for name, stream in replaced:
            getattr(sys, name).flush()
            setattr(sys, name, stream)


def _as_pipe(stream):
    return io.TextIOWrapper(
        io.BufferedWriter(_Pipe(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _occupy():
    """Opens what is closed of descriptors 0 to 2, or files would get them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
