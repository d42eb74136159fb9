"""Teacher outputs for text: by content, of the first classes only."""

import keras
import numpy as np
import pytest
from kit.caches import Said, make, of_teachers
from kit.helpers import decoder, large_except, to_numpy

import kdkit
from kdkit import data, models
from kdkit.losses import LogitKLDivergence, top_classes
from kdkit.taps import Entry, tapped

LENGTH, VOCABULARY, TOP = 9, 40, 5
TOP_ENTRY = Entry("logits", 0, TOP, 2.0)


@pytest.fixture(scope="module")
def corpus():
    """Seven rows, the last of them not full."""
    rows = np.random.default_rng(0).integers(0, VOCABULARY, (7, LENGTH + 1))
    rows[-1, 5:] = data.PADDING
    return data.PackedCorpus(rows.astype("int32"), 3, stride=LENGTH)


@pytest.fixture(scope="module")
def decoder_teacher():
    return decoder(2, seed=1)


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 0.05), ("int8", 0.1)]
)
def test_first_classes_are_kept_with_exact_numbers(
    corpus, decoder_teacher, tmp_path, precision, tolerance
):
    rows = data.PackedRows(corpus)
    cache = make(tmp_path, decoder_teacher, precision=precision)
    kept = cache.outputs(rows, [TOP_ENTRY])(np.arange(7), LENGTH)
    kept = kept[TOP_ENTRY.name]
    run = tapped(decoder_teacher, ["logits"])
    logits = run(rows.inputs(np.arange(7), LENGTH))["logits"]
    expected = to_numpy(top_classes(logits, TOP, 2.0))
    real = np.arange(LENGTH) < rows.lengths[:, np.newaxis]
    assert real.sum() == 6 * LENGTH + 4
    np.testing.assert_array_equal(kept[~real], 0)
    kept, expected = kept[real], expected[real]
    np.testing.assert_array_equal(kept[:, TOP + 1 :], expected[:, TOP + 1 :])
    np.testing.assert_allclose(kept[:, TOP], expected[:, TOP], atol=1e-5)
    np.testing.assert_allclose(kept, expected, atol=tolerance)
    assert cache.relative_error(TOP_ENTRY.name) < tolerance


def learned(distiller, corpus, features):
    """Logged numbers and weights after an epoch."""
    training, held_out = (
        data.BatchStream(rows, data.FullBatches(size), features=features(rows))
        for rows, size in (
            (data.PackedRows(corpus), 2),
            (data.PackedRows(corpus), 3),
        )
    )
    history = distiller.fit(
        training.training(),
        steps_per_epoch=training.steps_per_epoch,
        shuffle=False,
        verbose=0,
    )
    on_dev = distiller.evaluate(held_out.evaluation(), verbose=0)
    return [*history.history.values(), on_dev], distiller.student.get_weights()


@pytest.mark.parametrize("chunk_size", large_except([None, 6], 6))
@pytest.mark.parametrize("top_k", large_except([None, TOP, VOCABULARY], TOP))
def test_a_step_on_what_was_kept_is_the_step(
    corpus, decoder_teacher, tmp_path, chunk_size, top_k
):
    def kept(rows):
        outputs = make(tmp_path, decoder_teacher).outputs(rows, entries)
        return of_teachers(outputs)

    found = []
    for features in (lambda rows: None, kept):
        loss = LogitKLDivergence(2.0, top_k=top_k)
        distiller = kdkit.Distiller(
            decoder_teacher,
            decoder(1, seed=0),
            [kdkit.Objective(loss, name="kl")],
            0.5,
            chunk_size=chunk_size,
        )
        distiller.compile(
            keras.optimizers.SGD(0.5),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            run_eagerly=features is not kept,
        )
        (entries,) = distiller.teacher_entries
        found.append(learned(distiller, corpus, features))
    assert entries == (TOP_ENTRY if top_k == TOP else Entry("logits"),)
    (plain, weights), (cached, others) = found
    for one, other in zip(plain, cached, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4)
    for one, other in zip(weights, others, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-4)


def pairs(*both_sides):
    return data.PairRows(
        *(
            data.EncodedSentences(
                np.concatenate(rows).astype("int32"),
                np.array([len(row) for row in rows], "int32"),
                0,
                pad_token_id=0,
            )
            for rows in zip(*both_sides, strict=True)
        )
    )


@pytest.mark.parametrize(
    "tap", ["encoder_hidden_states", "cross_attention_probs"]
)
def test_what_an_encoder_reads_is_not_kept(tap, decoder_teacher, tmp_path):
    rows = pairs(([5, 6, 2], [7, 8, 2]))
    asked = [Entry("logits")], [Entry(tap, 1)]
    for entries, additional in (asked, asked[::-1]):
        with pytest.raises(ValueError, match=f"{tap}/1"):
            make(tmp_path, decoder_teacher).outputs(rows, entries, additional)


def test_pairs_are_known_by_both_sides_and_where_one_ends(tmp_path):
    backbone = models.MassBackbone(
        vocabulary_size=12,
        encoder_num_layers=1,
        decoder_num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=12,
        dropout=0.0,
    )
    said = Said()
    cache = make(tmp_path, models.MassSeq2SeqLM(backbone), said)
    rows = pairs(
        ([5, 6, 2], [7, 8, 2]), ([5, 6, 2], [7, 9, 2]), ([5, 6], [2, 7, 8, 2])
    )
    # The decoder says something of each token but the end.
    assert rows.lengths.tolist() == [2, 2, 3]
    inputs = rows.inputs(np.array([0, 1]), 2)
    np.testing.assert_array_equal(inputs["decoder_token_ids"], [[7, 8], [7, 9]])
    cache.outputs(rows, [Entry("logits")])
    assert said.rows_run() == 3
    again = pairs(*[([5, 6, 2], [7, 8, 2])] * 2, ([5, 6], [2, 7, 8, 2]))
    cache.outputs(again, [Entry("logits")])
    assert said.rows_run() == 2
