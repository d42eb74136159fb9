"""A model that is no decoder, and its file, for tests of errors."""

import pytest
from helpers import bert

from kdkit import export


@pytest.fixture(scope="session")
def encoder_model():
    return bert(1)


@pytest.fixture(scope="session")
def encoder_file(encoder_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder") / "encoder.tflite"
    export.to_litert(encoder_model, path)
    return path
