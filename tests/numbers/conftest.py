"""The teacher for the tests of caches."""

import pytest
from kit.caches import LAYERS
from kit.helpers import bert


@pytest.fixture(scope="session")
def teacher():
    return bert(LAYERS)
