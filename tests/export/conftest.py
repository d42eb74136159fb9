"""Files that all tests of exports share, and a real encoder."""

import os
import pathlib

import pytest
from kit.exported import Files
from kit.runs import folder_of_all_workers


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A function from a name in `kit.exported.FILES` to the file's report."""
    return Files(folder_of_all_workers(tmp_path_factory) / "exported")


@pytest.fixture(scope="session")
def minilm():
    """The folder of all-MiniLM-L6-v2, or a skip that says what to set."""
    place = os.environ.get("MINILM", "~/.cache/kdkit/all-minilm-l6-v2")
    path = pathlib.Path(place).expanduser()
    if not path.is_dir():
        pytest.skip(f"no all-MiniLM-L6-v2 in {path}: set MINILM to its folder")
    return path
