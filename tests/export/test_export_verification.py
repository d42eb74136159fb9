import numpy as np
import pytest

from kdkit.errors import RunError
from kdkit.export.exportable import exportable
from kdkit.export.verification import compare

EXPECTED = np.array([[1.0, 2.0], [5.0, 3.0]])
BATCH = {"token_ids": EXPECTED}


def answer(values):
    """Imitates a file that always gives the same outputs."""
    return lambda batch: np.asarray(values)


def test_compare_measures_difference_and_agreement():
    exported = answer([[1.0, 2.0], [4.0, 4.5]])
    result = compare([EXPECTED], exported, [BATCH], "f", precision="int8")
    assert result.max_abs_difference == 1.5
    assert result.same_top_class == 0.5
    assert result.examples == 2


def test_compare_names_how_much_and_where():
    expected = [EXPECTED, EXPECTED + 1, EXPECTED]
    with pytest.raises(RunError, match=r"f was .* by 1 in batch 2 of 3"):
        compare(expected, answer(EXPECTED), 3 * [BATCH], "f", precision="fp32")


def test_compare_refuses_another_shape():
    with pytest.raises(RunError, match="the wrong shape"):
        compare([EXPECTED], answer([[1], [2]]), [BATCH], "f", precision="int8")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_compare_refuses_what_is_not_finite(value):
    with pytest.raises(RunError, match="f was not .* in 4 of 4 outputs"):
        compare(
            [EXPECTED], answer(EXPECTED * value), [BATCH], "f", precision="int8"
        )


def test_generated_batches_are_the_same_every_time(bert):
    first, second = (exportable(bert, True).batches for _ in range(2))
    for batch, again in zip(first, second, strict=True):
        for name in bert.input:
            np.testing.assert_array_equal(batch[name], again[name])


def test_generated_batches_cover_the_inputs(bert):
    batches = exportable(bert, True).batches
    lengths = {batch["token_ids"].shape[1] for batch in batches}
    assert len(lengths) == 2
    assert max(lengths) <= bert.backbone.max_sequence_length
    for batch in batches:
        assert batch["token_ids"].max() < bert.backbone.vocabulary_size
        assert len(np.unique(batch["padding_mask"].sum(axis=1))) > 1
        assert set(np.unique(batch["segment_ids"])) == {0, 1}
        assert not batch["token_ids"][batch["padding_mask"] == 0].any()
