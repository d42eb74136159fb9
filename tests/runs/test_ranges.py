"""Invalid numbers are refused when settings are created."""

import dataclasses
import math

import pytest

from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.recipes.stages import Stage
from kdkit.runs import smoke
from kdkit.training import (
    CorpusSettings,
    DataSettings,
    PairSettings,
    SentenceSettings,
    UnlabeledSettings,
)

DATA = DataSettings("sst2", None, 64)
STAGE = Stage("s", 1, 1e-3, hard_label_weight=1.0)
TEXTS = (
    CorpusSettings(("a",)),
    SentenceSettings(("a",)),
    PairSettings(("a", "b")),
)
DISTILLATION = smoke.distillation(RECIPES["tinybert"])


@pytest.mark.parametrize(
    ("settings", "field", "least", "wrong"),
    [
        (DATA, "max_train_rows", 1, (0, -390)),
        (DATA, "num_buckets", 1, (0, -1)),
        (DATA, "sequence_length", 3, (2, -5)),
        (STAGE, "weight_decay", 0.0, (-5.0, math.inf, math.nan)),
        (
            dataclasses.replace(DISTILLATION.stages[0], hard_label_weight=0.5),
            "hard_label_weight",
            0.0,
            (-1.0, math.inf, math.nan),
        ),
        *((text, "max_texts", 1, (0, -1)) for text in TEXTS),
        *((text, "sequence_length", 3, (2, -1)) for text in TEXTS),
        *((text, "held_out_every", 2, (1, -100)) for text in TEXTS),
    ],
)
def test_numbers_below_the_least_are_refused(settings, field, least, wrong):
    made = dataclasses.replace(settings, **{field: least})
    assert getattr(made, field) == least
    for value in wrong:
        with pytest.raises(UsageError) as raised:
            dataclasses.replace(settings, **{field: value})
        said = str(raised.value)
        assert f"{field} must be " in said
        assert f"at least {least:g}" in said
        assert f"received {value}" in said


def test_all_rows_and_all_texts_are_null():
    assert DATA.max_train_rows is None
    with pytest.raises(UsageError, match="max_train_rows must be null or at"):
        dataclasses.replace(DATA, max_train_rows=0)
    with pytest.raises(UsageError, match="max_texts must be null or at least"):
        CorpusSettings(("a",), max_texts=0)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_rates_and_shares_are_finite_and_above_0(value):
    with pytest.raises(UsageError, match="learning_rate must be above 0"):
        dataclasses.replace(STAGE, learning_rate=value)
    with pytest.raises(UsageError, match="`per_labeled`.*above 0 and finite"):
        UnlabeledSettings(("a",), per_labeled=value)
