"""A model that is no decoder, and its file, for tests of errors."""

import pytest
from helpers import bert


@pytest.fixture(scope="session")
def encoder_model():
    return bert(1)
