"""Writes the goldens anew: `python -m tests.contract.freeze [PYTEST OPTIONS]`.

Without options all goldens are removed first; with `-k losses`, say, only
those of the tests that are chosen are written. goldens/README.md says when a
golden may change.
"""

import os
import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent


def main(options):
    os.environ["KDKIT_CONTRACT"] = "freeze"
    if not options:
        for file in (FOLDER / "goldens").glob("*.json"):
            file.unlink()
    shared = ["-q", "--numprocesses", "2", "--dist", "loadfile"]
    return pytest.main([*shared, *options, str(FOLDER)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
