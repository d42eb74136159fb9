"""Cached outputs equal the teacher's, for the requested rows only."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.caches import (
    LAYERS,
    Said,
    batches_of,
    batches_with,
    entries_of,
    examples,
    joined,
    make,
    of_teachers,
    rows,
)
from kit.helpers import LENGTH, bert

import kdkit
from kdkit import data, losses, models
from kdkit.taps import PER_LAYER_TAPS, Entry, tapped


def assert_outputs(model, entries, encoded, cached):
    """Outputs of batches are the model's own, and 0 at padding."""
    run = tapped(model, sorted({entry.tap for entry in entries}))
    count = 0
    for x, _ in batches_with(encoded, cached):
        taps = run({name: x[name] for name in model.input}, training=False)
        real = x["padding_mask"].numpy().astype(bool)
        for entry in entries:
            expected = taps[entry.tap]
            if entry.tap in PER_LAYER_TAPS:
                from_0 = entry.tap in ("hidden_states", "cls_states")
                expected = expected[entry.layer - (not from_0)]
            expected = np.array(expected)
            is_real = np.ones(expected.shape)
            if entry.tap.startswith("attention"):
                is_real = real[:, None, :, None] * real[:, None, None, :]
            elif expected.ndim > 2:
                is_real = real.reshape(*real.shape, *[1] * (expected.ndim - 2))
            assert x[entry.name].shape == expected.shape
            np.testing.assert_allclose(
                x[entry.name], expected * is_real, atol=1e-5
            )
        count += len(real)
    assert count == len(encoded) * encoded.sequences_per_row


def test_every_tap_is_the_teachers(tmp_path, teacher):
    encoded, entries = rows(11), entries_of(teacher)
    cached = make(tmp_path, teacher).outputs(encoded, entries)
    assert_outputs(teacher, entries, encoded, cached)


@pytest.mark.parametrize(
    ("head", "sequences_per_row", "taps"),
    [
        # One row of logits for all options of a question.
        (models.Head("multiple_choice", 3), 3, ["logits", "cls_states"]),
        # As many rows of logits as a text has tokens.
        (models.Head("tokens", 4), 1, ["logits"]),
    ],
)
def test_logits_are_of_questions_or_of_tokens(
    head, sequences_per_row, taps, tmp_path
):
    encoded = rows(7, sequences_per_row=sequences_per_row)
    model = models.add_head(bert(LAYERS, num_classes=None), head)
    entries = [Entry(tap, 2 * (tap != "logits")) for tap in taps]
    cached = make(tmp_path, model).outputs(encoded, entries)
    assert_outputs(model, entries, encoded, cached)


def test_outputs_of_layers_by_name_are_not_cached(tmp_path, teacher):
    """Which of their axes is as long as the text is not known."""
    with pytest.raises(ValueError, match="by name cannot be cached"):
        make(tmp_path, teacher).outputs(rows(3), [Entry("layer:pooled_dense")])


def test_what_will_be_asked_for_is_written_beside(tmp_path, teacher):
    said = Said()
    cache = make(tmp_path, teacher, said)
    first, later = Entry("hidden_states", 1), Entry("logits")
    for entries, additional, expected in (
        ([first], [later, first], 9),
        ([later], [], 0),
        ([first, later], [], 0),
        ([later], [Entry("hidden_states", 2)], 9),
    ):
        found = cache.outputs(rows(9), entries, additional)
        assert said.rows_run() == expected
        assert [*found(np.arange(1), LENGTH)] == [one.name for one in entries]


@pytest.mark.parametrize(
    ("precision", "largest"), [("fp32", 1e-7), ("bf16", 4e-3), ("int8", 1e-2)]
)
def test_fewer_bits_say_what_they_change(tmp_path, teacher, precision, largest):
    encoded, every = rows(9), np.arange(9)
    entry = Entry("hidden_states", 1)
    cache = make(tmp_path, teacher, precision=precision)
    found = cache.outputs(encoded, [entry])(every, LENGTH)[entry.name]
    exact = make(tmp_path / "exact", teacher).outputs(encoded, [entry])
    expected = exact(every, LENGTH)[entry.name]
    error = np.abs(found - expected)
    relative = np.sqrt((error**2).sum() / (expected**2).sum())
    assert relative < largest
    assert cache.relative_error(entry.name) == pytest.approx(
        relative, rel=1e-3, abs=1e-7
    )


def test_examples_are_stored_once_and_found_by_their_tokens(tmp_path, teacher):
    said, entries = Said(), [Entry("logits"), Entry("cls_states", 2)]
    first, more = rows(8), rows(5, seed=1)
    cache = make(tmp_path, teacher, said)
    before = cache.outputs(first, entries)(np.arange(8), LENGTH)
    assert said.rows_run() == 8
    cached = cache.outputs(joined(more, first, first), entries)
    assert said.rows_run() == 13
    for place in (5, 13):
        after = cached(np.arange(place, place + 8), LENGTH)
        for name, values in before.items():
            np.testing.assert_allclose(after[name], values, atol=1e-6)
    make(tmp_path, teacher, said).outputs(rows(8), entries)
    assert said.rows_run() == 0


CHANGED = {
    "ids": lambda one: {"token_ids": one.token_ids % 19 + 1},
    "segments": lambda one: {"segment_ids": one.segment_ids + 1},
    "order": lambda one: {"token_ids": np.roll(one.token_ids, 4)},
}


@pytest.mark.parametrize("name", CHANGED)
def test_other_examples_of_the_same_lengths_have_their_own_outputs(
    name, tmp_path
):
    head = models.Head("multiple_choice", 2)
    model = models.add_head(bert(LAYERS, num_classes=None), head)
    lengths = np.full(6, 4)
    one = examples(np.arange(24) % 19 + 1, lengths, np.arange(3), 2)
    other = dataclasses.replace(one, **CHANGED[name](one))
    entry = Entry("hidden_states", 2)
    for encoded in (one, other):
        cached = make(tmp_path, model).outputs(encoded, [entry])
        (found,) = cached(np.arange(len(encoded)), LENGTH).values()
        taps = tapped(model, ["hidden_states"])(
            encoded.inputs(np.arange(len(encoded)), LENGTH), training=False
        )
        expected = np.array(taps["hidden_states"][2])[:, :4]
        np.testing.assert_allclose(found[:, :4], expected, atol=1e-5)
    assert len(list(tmp_path.glob("*/*"))) == 2


@pytest.fixture(scope="module")
def kept(tmp_path_factory, teacher):
    """The cached outputs for nine rows, by row and by position."""
    entries = [Entry("logits"), Entry("cls_states", 2)]
    entries.append(Entry("hidden_states", 1))
    directory = tmp_path_factory.mktemp("kept")
    return make(directory, teacher).outputs(rows(9), entries), entries


@given(
    chosen=st.lists(st.integers(0, 8), min_size=1, max_size=12),
    padded_length=st.integers(LENGTH, LENGTH + 3),
)
def test_a_row_says_the_same_wherever_it_stands(kept, chosen, padded_length):
    cached, entries = kept
    every = cached(np.arange(9), LENGTH)
    found = cached(np.array(chosen), padded_length)
    for entry in entries:
        padded = found[entry.name]
        if padded.ndim > 2:
            np.testing.assert_array_equal(padded[:, LENGTH:], 0)
            padded = padded[:, :LENGTH]
        np.testing.assert_array_equal(padded, every[entry.name][chosen])


def test_wide_outputs_come_in_small_batches(tmp_path, teacher):
    encoded = rows(30)
    entry = Entry("attention_logits", 2)  # 288 bytes of the longest row
    cached = make(tmp_path, teacher).outputs(encoded, [entry])
    batches = data.BatchStream(encoded, data.Buckets(64), features=cached)
    labels = []
    with batches_of(900):
        for x, y in batches.evaluation():
            labels += y.numpy().tolist()
            # As many rows as there is memory for.
            assert 300 < x[entry.name].numpy().nbytes <= 900
        # Of training the user says how many rows a batch has.
        assert max(len(y) for _, y in batches_with(encoded, cached)) == 4
    assert sorted(labels) == list(range(30))


@pytest.mark.parametrize(
    ("loss", "tap"),
    [
        (losses.AttentionMSE, "attention_logits"),
        (losses.HiddenStateMSE, "hidden_states"),
    ],
)
@pytest.mark.usefixtures("eager")
def test_what_compares_padding_is_not_learned_from_a_cache(
    loss, tap, tmp_path, teacher
):
    """Of padding nothing is kept, and zeros would be taken for it."""
    encoded = rows(8)
    for parity in (None, "tinybert"):
        objective = kdkit.Objective(loss(parity), tap=tap)
        distiller = kdkit.Distiller(teacher, bert(2), [objective])
        distiller.compile("sgd", jit_compile=False)
        (entries,) = distiller.teacher_entries
        outputs = make(tmp_path, teacher).outputs(encoded, entries)
        batches = batches_with(encoded, of_teachers(outputs))
        if parity is None:
            distiller.fit(batches, shuffle=False, verbose=0)
            continue
        with pytest.raises(ValueError, match="padded"):
            distiller.fit(batches, shuffle=False, verbose=0)
