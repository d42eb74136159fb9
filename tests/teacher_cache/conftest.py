"""The teacher for the tests of caches."""

import pytest
from caches import LAYERS
from helpers import bert


@pytest.fixture(scope="module")
def teacher():
    return bert(num_layers=LAYERS)
