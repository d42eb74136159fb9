"""Cached outputs equal the teacher's, for the requested rows only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.caches import LAYERS, Says, batches_with, joined, make, rows
from kit.helpers import LENGTH, bert

import kdkit
from kdkit import losses, models
from kdkit.errors import UsageError
from kdkit.models.heads import EXCLUDED
from kdkit.taps import PER_LAYER_TAPS, Entry, describe, tapped
from kdkit.teacher_cache.reading import OutputsOfTeachers
from kdkit.teacher_cache.shards import Error, pack, unpack


def entries_of(model):
    found = []
    for tap in describe(model).taps:
        if tap not in PER_LAYER_TAPS:
            found.append(Entry(tap))
            continue
        first = 0 if tap in ("hidden_states", "cls_states") else 1
        found += [Entry(tap, layer) for layer in range(first, LAYERS + 1)]
    return found


def test_every_tap_is_as_the_teacher_says_it(tmp_path, teacher):
    encoded = rows(11)
    entries = entries_of(teacher)
    cached = make(tmp_path, teacher).outputs(encoded, entries)
    run = tapped(teacher, sorted({entry.tap for entry in entries}))
    count = 0
    for x, _ in batches_with(encoded, cached):
        taps = run(x, training=False)
        real = x["padding_mask"].numpy().astype(bool)
        for entry in entries:
            expected = np.array(entry.read(taps))
            found = x[entry.name].numpy()
            # Outputs for padding are not saved.
            weights = np.ones(expected.shape)
            if entry.tap.startswith("attention"):
                weights = real[:, None, :, None] * real[:, None, None, :]
            elif expected.ndim > 2:
                weights = real.reshape(*real.shape, *[1] * (expected.ndim - 2))
            np.testing.assert_allclose(found, expected * weights, atol=1e-5)
        count += len(real)
    assert count == 11


def test_what_will_be_asked_for_is_written_beside(tmp_path, teacher):
    says = Says()
    cache = make(tmp_path, teacher, says)
    first, later = Entry("hidden_states", 1), Entry("logits")
    cache.outputs(rows(9), [first], additional=[later, first])
    assert says[-1].startswith(f"{tmp_path}: running the teacher on 9 examples")
    cache.outputs(rows(9), [later], additional=[Entry("hidden_states", 2)])
    # The teacher does not run for additional entries only.
    assert says[-1].endswith("outputs for all 9 examples are cached.")
    # New rows: the requested and the additional entries.
    both = joined(rows(9), rows(5, seed=1))
    cache.outputs(both, [later], additional=[first])
    assert says[-1].startswith(f"{tmp_path}: running the teacher on 5 examples")
    cache.outputs(both, [first, later])
    assert says[-1].endswith("outputs for all 14 examples are cached.")


@pytest.mark.parametrize(
    ("precision", "largest"), [("fp32", 1e-7), ("bf16", 4e-3), ("int8", 1e-2)]
)
def test_fewer_bits_say_what_they_change(tmp_path, teacher, precision, largest):
    encoded = rows(9)
    entry = Entry("hidden_states", 1)
    cache = make(tmp_path, teacher, precision=precision)
    cached = cache.outputs(encoded, [entry])
    exact = make(tmp_path / "exact", teacher).outputs(encoded, [entry])
    every = np.arange(9)
    found = cached(every, LENGTH)[entry.name]
    expected = exact(every, LENGTH)[entry.name]
    known = cache.describe()["entries"][entry.name]
    assert cache.relative_error(entry.name) < largest
    error = np.abs(found - expected)
    assert known["largest_error"] == pytest.approx(error.max(), abs=1e-6)
    relative = np.sqrt((error**2).sum() / (expected**2).sum())
    assert cache.relative_error(entry.name) == pytest.approx(
        relative, rel=1e-3, abs=1e-7
    )


@given(
    logits=st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=9),
    data=st.data(),
)
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_logits_of_candidates_are_kept_beside_those_of_no_candidates(
    precision, logits, data
):
    """As a head with candidates gives them, whose others are -1e4."""
    values = np.array(logits, "float32")
    excluded = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(logits),
                           max_size=len(logits)))
    )  # fmt: skip
    values[excluded] = EXCLUDED
    content, error = pack(values, precision), Error()
    error.add(values, content, precision)
    found = np.empty_like(values)
    unpack(np.frombuffer(content, "uint8"), precision, found)
    np.testing.assert_allclose(found[~excluded], values[~excluded], atol=0.09)
    np.testing.assert_allclose(found[excluded], EXCLUDED, rtol=4e-3)
    kept = np.abs(found - values)[~excluded]
    assert error.largest == kept.max(initial=0.0)
    assert error.signal == pytest.approx(
        np.square(values[~excluded], dtype="float64").sum()
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_does_not_become_a_number(precision, broken):
    values = np.array([1.0, broken, -2.0], "float32")
    found = np.empty_like(values)
    with np.errstate(invalid="ignore"):
        content = pack(values, precision)
        unpack(np.frombuffer(content, "uint8"), precision, found)
        error = Error()
        error.add(values, content, precision)
    assert not np.isfinite(found[1])
    # Or the errors of all else that is kept would not be known.
    assert np.isfinite([error.largest, error.squared, error.signal]).all()


def test_rows_are_known_by_their_tokens(tmp_path, teacher):
    says = Says()
    entries = [Entry("logits"), Entry("cls_states", 2)]
    first, more = rows(8), rows(5, seed=1)
    cache = make(tmp_path, teacher, says)
    before = cache.outputs(first, entries)(np.arange(8), LENGTH)
    assert "running the teacher on 8 examples" in says[-1]
    # In another order, twice, and with others among them.
    cached = cache.outputs(joined(more, first, first), entries)
    assert "running the teacher on 5 examples" in says[-1]
    for place in (5, 13):
        after = cached(np.arange(place, place + 8), LENGTH)
        for name, values in before.items():
            np.testing.assert_array_equal(after[name], values)
    again = make(tmp_path, teacher, says)
    again.outputs(joined(first, more), entries)
    assert "outputs for all 13 examples are cached" in says[-1]
    again.outputs(first, [*entries, Entry("hidden_states", 1)])
    assert "running the teacher on 8 examples" in says[-1]


@given(
    chosen=st.lists(st.integers(0, 8), min_size=1, max_size=12),
    padded_length=st.integers(LENGTH, LENGTH + 3),
)
def test_a_row_says_the_same_wherever_it_stands(kept, chosen, padded_length):
    cached, entries = kept
    every = cached(np.arange(9), LENGTH)
    found = cached(np.array(chosen), padded_length)
    for entry in entries:
        expected = every[entry.name][chosen]
        padded = found[entry.name]
        if expected.ndim > 2:
            np.testing.assert_array_equal(padded[:, LENGTH:], 0)
            padded = padded[:, :LENGTH]
        np.testing.assert_array_equal(padded, expected)


@pytest.fixture(scope="module")
def kept(tmp_path_factory, teacher):
    """Returns the cached outputs for nine rows, by row and by position."""
    entries = [Entry("logits"), Entry("cls_states", 2)]
    entries.append(Entry("hidden_states", 1))
    directory = tmp_path_factory.mktemp("kept")
    return make(directory, teacher).outputs(rows(9), entries), entries


def test_logits_of_questions_are_one_row_for_all_options(tmp_path):
    encoded = rows(6, sequences_per_row=3)
    backbone = bert(num_layers=LAYERS, num_classes=None)
    model = models.add_head(backbone, models.Head("multiple_choice", 3))
    entries = [Entry("logits"), Entry("cls_states", 2)]
    cached = make(tmp_path, model).outputs(encoded, entries)
    for x, labels in batches_with(encoded, cached):
        expected = tapped(model, ["logits", "cls_states"])(x)
        assert x["logits"].shape == (len(labels), 3)
        assert x["cls_states/2"].shape == (3 * len(labels), 8)
        for entry in entries:
            np.testing.assert_allclose(
                x[entry.name], entry.read(expected), atol=1e-5
            )


def test_logits_of_tokens_are_as_long_as_their_row(tmp_path):
    encoded = rows(7)
    backbone = bert(num_layers=LAYERS, num_classes=None)
    model = models.add_head(backbone, models.Head("tokens", 4))
    cached = make(tmp_path, model).outputs(encoded, [Entry("logits")])
    for x, _ in batches_with(encoded, cached):
        real = x["padding_mask"].numpy()[:, :, None]
        expected = model({name: x[name] for name in model.input})
        np.testing.assert_allclose(
            x["logits"], expected.numpy() * real, atol=1e-5
        )


@pytest.mark.parametrize(
    "make_objective",
    [
        lambda parity: kdkit.Objective(
            losses.AttentionMSE(parity), tap="attention_logits"
        ),
        lambda parity: kdkit.Objective(
            losses.HiddenStateMSE(parity), tap="hidden_states"
        ),
    ],
)
def test_what_compares_padding_is_not_learned_from_a_cache(
    make_objective, tmp_path, teacher
):
    """Of padding nothing is kept, and zeros would be taken for it."""
    encoded = rows(8)
    for parity in (None, "tinybert"):
        distiller = kdkit.Distiller(teacher, bert(2), [make_objective(parity)])
        distiller.compile("sgd", jit_compile=False)
        (entries,) = distiller.teacher_entries
        outputs = make(tmp_path, teacher).outputs(encoded, entries)
        batches = batches_with(encoded, OutputsOfTeachers([outputs]))
        if parity is None:
            distiller.fit(batches, shuffle=False, verbose=0)
            continue
        with pytest.raises(
            UsageError, match="padded positions, which the teacher cache"
        ):
            distiller.fit(batches, shuffle=False, verbose=0)
