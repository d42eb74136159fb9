"""Teacher outputs for text: by content, of the first classes only."""

import keras
import numpy as np
import pytest
from kit.caches import make
from kit.helpers import decoder, large_except, to_numpy

import kdkit
from kdkit import data
from kdkit.data.packing import PADDING
from kdkit.distillation import Objective
from kdkit.errors import UsageError
from kdkit.losses import LogitKLDivergence, top_classes
from kdkit.taps import Entry, tapped
from kdkit.teacher_cache.reading import OutputsOfTeachers
from kdkit.teacher_cache.shards import row_keys

LENGTH, VOCABULARY, TOP = 9, 40, 5
TOP_ENTRY = Entry("logits", 0, TOP, 2.0)


@pytest.fixture(scope="module")
def corpus():
    """Seven rows, the last of them not full."""
    rows = np.random.default_rng(0).integers(0, VOCABULARY, (7, LENGTH + 1))
    rows[-1, 5:] = PADDING
    return data.PackedCorpus(rows.astype("int32"), 3, stride=LENGTH)


@pytest.fixture(scope="module")
def teacher():
    return decoder(2, seed=1)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_first_classes_are_kept_with_exact_numbers(
    corpus, teacher, tmp_path, precision
):
    rows = data.PackedRows(corpus)
    cache = make(tmp_path, teacher, precision=precision)
    found = cache.outputs(rows, [TOP_ENTRY])(np.arange(7), LENGTH)
    logits = tapped(teacher, ["logits"])(rows.inputs(np.arange(7), LENGTH))
    expected = to_numpy(top_classes(logits["logits"], TOP, 2.0))
    real = np.arange(LENGTH) < rows.lengths[:, np.newaxis]
    assert real.sum() == 6 * LENGTH + 4
    kept = found[TOP_ENTRY.name]
    np.testing.assert_array_equal(kept[~real], 0)
    np.testing.assert_array_equal(
        kept[real][:, TOP + 1 :], expected[real][:, TOP + 1 :]
    )
    tolerance = {"fp32": 1e-5, "bf16": 0.05, "int8": 0.1}[precision]
    np.testing.assert_allclose(kept[real], expected[real], atol=tolerance)
    assert cache.relative_error(TOP_ENTRY.name) < tolerance


@pytest.mark.parametrize("chunk_size", large_except([None, 6], 6))
@pytest.mark.parametrize("top_k", large_except([None, TOP, VOCABULARY], TOP))
def test_a_step_on_what_was_kept_is_the_step(
    corpus, teacher, tmp_path, chunk_size, top_k
):
    found = []
    for is_cached in (False, True):
        student = decoder(1, seed=0)
        objective = Objective(LogitKLDivergence(2.0, top_k=top_k), name="kl")
        distiller = kdkit.Distiller(
            teacher, student, [objective], 0.5, chunk_size=chunk_size
        )
        distiller.compile(
            keras.optimizers.SGD(0.5),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        outputs = None
        if is_cached:
            (entries,) = distiller.teacher_entries
            assert entries == (
                Entry("logits", 0, top_k, 2.0)
                if top_k == TOP
                else Entry("logits"),
            )
            outputs = kept_outputs(make(tmp_path, teacher), entries)

        stream, held_out = (
            data.BatchStream(
                rows, data.FullBatches(size), features=outputs and outputs(rows)
            )
            for rows, size in (
                (data.PackedRows(corpus), 2),
                (data.PackedRows(corpus, counts_once=True), 3),
            )
        )
        history = distiller.fit(
            stream.training(),
            steps_per_epoch=stream.steps_per_epoch,
            shuffle=False,
            verbose=0,
        )
        evaluation = distiller.evaluate(
            held_out.evaluation(),
            return_dict=True,
            verbose=0,
        )
        found.append((history.history, evaluation, student.get_weights()))
    plain, cached = found
    for one, other in zip(plain[:2], cached[:2], strict=True):
        assert set(one) == set(other)
        for name, value in one.items():
            np.testing.assert_allclose(other[name], value, rtol=1e-4)
    for one, other in zip(plain[2], cached[2], strict=True):
        np.testing.assert_allclose(other, one, atol=1e-4)


def kept_outputs(cache, entries):
    def features(rows):
        return OutputsOfTeachers([cache.outputs(rows, entries)])

    return features


def test_states_of_packed_rows_for_encoders_are_kept_too(tmp_path):
    rows = np.arange(24, dtype="int32").reshape(4, 6) % VOCABULARY
    packed = data.PackedRows(data.PackedCorpus(rows, 2))
    assert packed.sequence_length == 6
    model = decoder(1)  # reads token_ids and padding_mask alone
    entry = Entry("hidden_states", 1)
    found = make(tmp_path, model).outputs(packed, [entry])
    states = tapped(model, ["hidden_states"])(packed.inputs(np.arange(4), 6))
    np.testing.assert_allclose(
        found(np.array([2]), 6)[entry.name][0],
        to_numpy(states["hidden_states"][1])[2],
        atol=1e-5,
    )


def sentences(*rows):
    return data.EncodedSentences(
        np.concatenate(rows).astype("int32"),
        np.array([len(row) for row in rows], "int32"),
        0,
        pad_token_id=0,
    )


@pytest.mark.parametrize(
    "tap", ["encoder_hidden_states", "cross_attention_probs"]
)
def test_what_an_encoder_reads_is_not_kept(tap, teacher, tmp_path):
    rows = data.PairRows(sentences([5, 6, 2]), sentences([7, 8, 2]))
    for beside in (False, True):
        asked = [[Entry("logits")], [Entry(tap, 1)]]
        entries, others = asked if beside else asked[::-1]
        with pytest.raises(
            UsageError, match=f"Received: {tap}/1, which need the encoder"
        ):
            make(tmp_path, teacher).outputs(rows, entries, others)


def test_pairs_are_known_by_both_sides_and_where_one_ends():
    rows = data.PairRows(
        sentences([5, 6, 2], [5, 6, 2], [5, 6]),
        sentences([7, 8, 2], [7, 9, 2], [2, 7, 8, 2]),
    )
    keys = row_keys(rows)
    assert len(np.unique(keys, axis=0)) == 3
    again = data.PairRows(sentences([5, 6, 2]), sentences([7, 8, 2]))
    np.testing.assert_array_equal(row_keys(again), keys[:1])
    # The decoder says something of each token but the end.
    assert rows.lengths.tolist() == [2, 2, 3]
    inputs = rows.inputs(np.array([0, 1]), 2)
    np.testing.assert_array_equal(inputs["decoder_token_ids"], [[7, 8], [7, 9]])
