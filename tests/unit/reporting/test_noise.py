"""kdkit.reporting.results: the errors of metrics and of differences."""

import numpy as np
import pytest

from kdkit.reporting.results import (
    difference_error,
    is_noise,
    standard_error,
)


def test_standard_errors_are_those_of_simulations():
    rng = np.random.default_rng(0)
    right = rng.random((4000, 400)) < 0.85
    other = np.where(rng.random(right.shape) < 0.1, ~right, right)
    drawn = right.mean(axis=1)
    found = standard_error("accuracy", [0.85], 400)
    assert found == pytest.approx(drawn.std(), rel=0.05)
    found = difference_error(
        "accuracy", [right.mean()], [other.mean()], 400, disagreement=0.1
    )
    differences = drawn - other.mean(axis=1)
    assert found == pytest.approx(differences.std(), rel=0.05)
    x, noise = rng.normal(size=(2, 4000, 400))
    pairs = zip(x, 0.6 * x + 0.8 * noise, strict=True)
    correlations = [np.corrcoef(a, b)[0, 1] for a, b in pairs]
    found = standard_error("pearson", [0.6], 400)
    assert found == pytest.approx(np.std(correlations), rel=0.05)


def test_seeds_are_compared_by_their_spread():
    first, second = [0.80, 0.82, 0.84], [0.81, 0.80, 0.82]
    error = (np.var(first, ddof=1) / 3 + np.var(second, ddof=1) / 3) ** 0.5
    found = difference_error("f1", first, second, None)
    assert found == pytest.approx(error)
    assert is_noise("f1", first, second, None)
    assert not is_noise("f1", first, [value - 0.1 for value in second], None)
    assert not is_noise("f1", [0.8], [0.8001], 100)  # no error is known
