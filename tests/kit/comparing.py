"""Two runs that must have the same numbers."""

import numpy as np
import pytest

from kdkit.models import load_classifier
from kit.helpers import read_events


def assert_same_numbers(run, other):
    """Losses and metrics on dev."""
    for kind, numbers in (("epoch", "logs"), ("evaluation", "metrics")):
        events, others = (read_events(place, kind) for place in (run, other))
        assert events
        for one, two in zip(events, others, strict=True):
            assert one[numbers] == pytest.approx(
                two[numbers], rel=1e-4, abs=1e-5
            ), (one["arm"], one["stage"])


def assert_same_run(run, other):
    """Compares likewise, with the final weights of a two-class classifier."""
    assert_same_numbers(run, other)
    for one, two in zip(
        load_classifier(run, 2).model.get_weights(),
        load_classifier(other, 2).model.get_weights(),
        strict=True,
    ):
        np.testing.assert_allclose(one, two, atol=1e-5)
