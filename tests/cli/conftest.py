"""Runs here are quick."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _quick(quick_runs):
    """Tracing is most of a short run."""
