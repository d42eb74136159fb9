"""The doctor on repeated rows and on texts without words."""

import numpy as np
import pytest
from patients import checks, copied, found, rows_of, write_rows

from kdkit import doctor
from kdkit.data import Examples
from kdkit.doctor import OK, WARNING
from kdkit.doctor.diagnosis import diagnose
from kdkit.settings import override

TEXTS = [f"this is the text of row {number}" for number in range(200)]
LABELS = [number % 2 for number in range(200)]


def repeats(texts, labels, split="train"):
    """Returns the finding for a split of sentences and a dev of other texts."""
    rows = Examples((texts,), None if labels is None else np.array(labels))
    dev = Examples(([f"dev: {text}" for text in TEXTS],))
    splits = {split: rows, "dev": dev}
    return doctor.repeated_rows(
        {name: doctor.row_texts(some) for name, some in splits.items()},
        {name: doctor.row_labels(some) for name, some in splits.items()},
    )


@pytest.mark.parametrize(
    ("again", "outcome"), [(0, OK), (15, OK), (30, WARNING)]
)
@pytest.mark.parametrize("labels", [LABELS, None])
def test_rows_that_come_again_are_counted(again, outcome, labels):
    texts = TEXTS + [f"THIS  is {text[8:]}" for text in TEXTS[:again]]
    if labels is not None:
        labels = labels + labels[:again]
    finding = repeats(texts, labels)
    assert finding.outcome == outcome
    assert f"{again} of {len(texts)} in train" in finding.found
    assert "0 of 200 in dev" in finding.found
    assert "another label" not in finding.found
    assert (TEXTS[0] in finding.found) == (outcome == WARNING)


@pytest.mark.parametrize(("against", "outcome"), [(1, OK), (5, WARNING)])
def test_rows_against_the_others_of_their_text_are_counted(against, outcome):
    """Two of three have one label, and no model is right on the third."""
    texts = TEXTS + 2 * TEXTS[:against]
    others = [1 - label for label in LABELS[:against]]
    finding = repeats(texts, LABELS + others + LABELS[:against])
    assert finding.outcome == outcome
    said = f"{against} of {len(texts)} in train"
    assert said in finding.found.partition("another label")[2]
    assert ("predict two labels" in finding.advice) == (outcome == WARNING)
    assert "Remove repetitions" not in finding.advice


def odd(*columns):
    return doctor.odd_texts({"train": doctor.row_texts(Examples(columns))})


@pytest.mark.parametrize(("quoted", "outcome"), [(100, OK), (195, WARNING)])
def test_texts_within_quotation_marks_are_a_warning(quoted, outcome):
    """As a writer of CSV leaves them."""
    texts = [f'"{text}"' for text in TEXTS[:quoted]] + TEXTS[quoted:]
    for place, columns in (
        ("The text", [texts]),
        ("The second text", [TEXTS, texts]),
    ):
        finding = odd(*columns)
        assert (finding is None) == (outcome == OK)
        if finding is not None:
            assert finding.outcome == outcome
            assert f'{place} is within "…" in 195 of 200' in finding.found
            assert "without quoting" in finding.advice


@pytest.mark.parametrize("empty", [0, 10, 100, 200])
def test_an_empty_text_of_many_pairs_is_a_warning(empty):
    finding = odd(TEXTS, ["", "\u200b"] * (empty // 2) + TEXTS[empty:])
    if empty < 20:
        assert finding is None
        return
    assert finding.outcome == WARNING
    assert f"The second text is empty in {empty} of 200 rows of train" in (
        finding.found
    )


@pytest.mark.usefixtures("quickly")
def test_rows_again_and_within_quotation_marks_are_warnings(
    made, settings, tmp_path
):
    root = copied(made, tmp_path)
    rows, labels = rows_of(root, "train")
    rows = [f'"{row}"' for row in 2 * rows]
    labels += [1 - one for one in labels]
    write_rows(root / "SST-2", "train", rows, labels)
    data = f"data.data_dir={root}"
    findings = diagnose(override(settings, [data]), tmp_path / "run")
    assert checks(findings, WARNING) >= {"repeated rows", "texts"}
    said = "same text elsewhere: 40 of 80 in train (50.0 %)"
    assert said in found(findings, "repeated rows").found
    assert 'within "…" in 80 of 80 rows' in found(findings, "texts").found
