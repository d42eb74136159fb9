"""Memory for a `.tflite` file, without the interpreter's notice."""

import contextlib
import os
import re
import sys
import tempfile

# Written once in a process, by C++ code that reads no log level.
NOTICE = re.compile(rb"INFO: Created TensorFlow Lite XNNPACK delegate.*\n")
HIDDEN_FROM = 2  # the level of `TF_CPP_MIN_LOG_LEVEL` without notices


def allocate(interpreter) -> None:
    """Allocates an interpreter's tensors.

    Where `TF_CPP_MIN_LOG_LEVEL` is 2 or more, as kdkit's verbs set it, LiteRT's
    notice of its XNNPACK delegate is not shown. Anything else that is written
    to the standard error is.

    Args:
        interpreter: `ai_edge_litert.interpreter.Interpreter`.
    """
    level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0")
    if level.isdecimal() and int(level) >= HIDDEN_FROM:
        with _without_notice():
            interpreter.allocate_tensors()
    else:
        interpreter.allocate_tensors()


@contextlib.contextmanager
def _without_notice():
    """Passes on file descriptor 2, except for the notice."""
    if sys.stderr is not None:
        sys.stderr.flush()
    with tempfile.TemporaryFile() as aside:
        try:
            saved = os.dup(2)
        except OSError:  # closed
            yield
            return
        os.dup2(aside.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            aside.seek(0)
            rest = NOTICE.sub(b"", aside.read())
            if rest:
                os.write(2, rest)
