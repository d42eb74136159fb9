"""Errors of Keras, keras-hub and other libraries while a model is loaded."""

import contextlib
import warnings

from kdkit.errors import RunError, UsageError

OPTIMIZER = "Skipping variable loading for optimizer"  # Keras' warning


@contextlib.contextmanager
def loading(source):
    """Converts errors from Keras and keras-hub to one line."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", OPTIMIZER)
            yield
    except (UsageError, RunError):
        raise
    except Exception as error:  # they raise many kinds
        raise UsageError(
            f"{source} cannot be loaded: {first_sentence(error)}. Expected a "
            "complete model for the installed versions of Keras and keras-hub. "
            "Restore it from a copy, or save it again."
        ) from error


def first_sentence(error: Exception) -> str:
    """Returns the first sentence of a library's error."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    sentence = lines[0].partition(". ")[0].rstrip(".:")
    return sentence if len(sentence) < 300 else f"{sentence[:300]}..."
