"""Files that all tests of exports share."""

import pytest
from kit.exported import Files
from kit.runs import folder_of_all_workers


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A function from a name in `kit.exported.FILES` to the file's report."""
    return Files(folder_of_all_workers(tmp_path_factory) / "exported")
