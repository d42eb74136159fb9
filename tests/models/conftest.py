"""Models here run their steps untraced."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _untraced(eager):
    """Tracing is most of a short run, and the same for all models."""
