"""Numbers of a cache's files: `kdkit.teacher_cache.files`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdkit.teacher_cache import files

EXCLUDED = -1e4  # the logit of a class that is no candidate


def stored(values, precision):
    """The numbers that are read again, and the squares that are noted."""
    content = files.pack(values, precision)
    assert len(content) == files.packed_size(values.shape, precision)
    found = np.empty_like(values)
    files.unpack(np.frombuffer(content, "uint8"), found, precision)
    return found, files.squares(values, content, precision)


@given(
    st.lists(
        st.tuples(st.floats(-20, 20, width=32), st.booleans()),
        min_size=2,
        max_size=9,
    )
)
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_logits_of_candidates_are_kept_beside_those_of_no_candidates(
    precision, drawn
):
    values = np.array([value for value, _ in drawn], "float32")
    is_candidate = ~np.array([excluded for _, excluded in drawn])
    values[~is_candidate] = EXCLUDED
    found, (errors, signal) = stored(values, precision)
    right = values[is_candidate]
    np.testing.assert_allclose(found[is_candidate], right, atol=0.09)
    np.testing.assert_allclose(found[~is_candidate], EXCLUDED, rtol=4e-3)
    wrong = np.square(found[is_candidate] - right, dtype="float64").sum()
    assert errors == pytest.approx(wrong)
    expected = np.square(right, dtype="float64").sum()
    assert signal == pytest.approx(expected)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_does_not_become_a_number(precision, broken):
    with np.errstate(invalid="ignore"):
        found, sums = stored(np.array([1.0, broken, -2.0], "f4"), precision)
    assert not np.isfinite(found[1])
    # Or the errors of all else that is kept would not be known.
    assert np.isfinite(sums).all()
