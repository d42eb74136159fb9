"""Runs here are quick: few rows to measure on, steps that are not traced."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _quick(quick_runs):
    """Tracing is most of a short run."""
