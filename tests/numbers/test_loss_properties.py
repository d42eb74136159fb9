"""Properties of every loss for any tensors, weights and padding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.loss_cases import BATCH, CASES, LENGTH, draw

every_loss = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
seeds = st.integers(0, 2**32 - 1)
scales = st.sampled_from([0.01, 1.0, 30.0])
# A third of the weights are 0, and the others far apart.
weights = st.lists(
    st.one_of(st.just(0.0), st.floats(0.1, 10.0)),
    min_size=BATCH,
    max_size=BATCH,
).map(lambda drawn: np.array(drawn, "float32"))


def close(first, second):
    np.testing.assert_allclose(first, second, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if not case.compares_examples],
    ids=lambda case: case.id,
)
@given(seed=seeds, scale=scales, weight=weights, cut=st.integers(1, BATCH - 1))
def test_sums_of_parts_are_the_sums_of_the_whole(
    case, seed, scale, weight, cut
):
    teacher, student = draw(case, seed, scale)
    parts = [
        case.loss.sums(teacher[rows], student[rows], weight[rows])
        for rows in (slice(None, cut), slice(cut, None))
    ]
    close(
        np.sum(parts, axis=0),
        np.stack(case.loss.sums(teacher, student, weight)),
    )


@every_loss
@given(seed=seeds, scale=scales, data=st.data())
def test_what_has_no_weight_may_be_anything(case, seed, scale, data):
    shape = (BATCH, LENGTH) if case.positions else (BATCH,)
    size = int(np.prod(shape))
    mask = np.reshape(
        data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), shape
    )
    teacher, student = draw(case, seed, scale)
    others = draw(case, seed + 1, 10 * scale)
    places = mask.reshape(*shape, *[1] * (teacher.ndim - mask.ndim))
    if case.positions == 2:  # (batch, heads, query, key): both are to be real
        if case.counts_padding:
            return
        places = mask[:, None, :, None] & mask[:, None, None, :]
    elif case.counts_padding:
        return
    replaced = [
        np.where(places, tensor, other)
        for tensor, other in zip((teacher, student), others, strict=True)
    ]
    close(case.loss(*replaced, mask), case.loss(teacher, student, mask))
