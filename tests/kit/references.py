"""The libraries that define the right answer: the extra `references`.

`make test` installs them. Where one is missing, the test is skipped by name;
in CI it fails, so that no comparison disappears unnoticed.
"""

import importlib
import os
import warnings

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def reference(name):
    """Returns an imported module of the extra `references`, or skips.

    Args:
        name: string, such as `"transformers"`.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        message = f'no {name}: pip install -e ".[references]" ({error})'
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
