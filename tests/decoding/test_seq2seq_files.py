"""Files of encoder-decoders: the same translation as from Keras."""

import keras
import numpy as np
import pytest
from helpers import large_except, with_random_weights

from kdkit import export, generation
from kdkit.models import MassBackbone, MassSeq2SeqLM

VOCABULARY, SOURCE, ROOM, FIRST = 120, 10, 12, 5


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    backbone = MassBackbone(
        VOCABULARY, 1, 2, 2, 32, 40, max_sequence_length=ROOM
    )
    return with_random_weights(MassSeq2SeqLM(backbone), scale=0.2)


@pytest.fixture(scope="module")
def reports(model, tmp_path_factory):
    """Reports by precision, each written when a test first asks for it."""
    folder = tmp_path_factory.mktemp("files")

    class Reports(dict):
        def __missing__(self, precision):
            self[precision] = export.to_litert(
                model,
                folder / f"{precision}.tflite",
                precision,
                source_length=SOURCE,
                sequence_length=ROOM,
            )
            return self[precision]

    return Reports()


def test_the_file_is_the_model(reports):
    assert reports["fp32"].max_abs_difference < 1e-4
    assert reports["fp32"].same_top_class == 1
    assert reports["int8"].same_top_class > 0.8
    assert reports["fp32"].examples == 4 * ROOM
    assert reports["int8"].size_bytes < reports["fp32"].size_bytes


@pytest.mark.large
def test_the_file_in_half_precision_is_the_model(reports):
    assert reports["fp16"].max_abs_difference < 0.05
    sizes = [reports[name].size_bytes for name in ("int8", "fp16", "fp32")]
    assert sizes == sorted(sizes)


@pytest.mark.large
def test_a_table_that_both_signatures_look_up_is_there_once(tmp_path):
    words = 3000  # nearly all of the weights
    small = MassSeq2SeqLM(
        MassBackbone(words, 1, 1, 2, 16, 16, max_sequence_length=8)
    )
    report = export.to_litert(
        small, tmp_path / "x.tflite", source_length=4, sequence_length=4
    )
    table = 4 * words * 16
    assert report.size_bytes - 4 * small.count_params() < 0.7 * table


def test_a_joint_table_is_there_once_in_int8_too(tmp_path):
    words, width = 2000, 128
    small = MassSeq2SeqLM(
        MassBackbone(words, 1, 1, 2, width, 16, max_sequence_length=8)
    )
    report = export.to_litert(
        small, tmp_path / "x.tflite", "int8", source_length=4, sequence_length=4
    )
    # Each row also has a scale and a zero point, in both signatures.
    more = report.size_bytes - small.count_params()
    assert more < 0.5 * words * width
    assert report.same_top_class > 0.9


@pytest.mark.large
def test_greedy_text_is_that_of_keras(model, reports):
    file = export.LiteRTSeq2Seq(reports["fp32"].file)
    model.compile(sampler="greedy")
    rng = np.random.default_rng(4)
    prompt = np.zeros((1, ROOM), "int32")
    prompt[0, 0] = FIRST
    for length in (SOURCE, 3, 7):  # a second source knows nothing of the first
        source = rng.integers(0, VOCABULARY, length)
        written = model.generate(
            {
                "encoder_token_ids": source[np.newaxis],
                "encoder_padding_mask": np.ones((1, length), "int32"),
                "decoder_token_ids": prompt,
                "decoder_padding_mask": np.arange(ROOM)[np.newaxis] < 1,
            },
            stop_token_ids=None,
        )
        expected = np.asarray(written["decoder_token_ids"])[0]
        file.read_source(source)
        text = [FIRST]
        while len(text) < ROOM:
            text.append(int(file.step(text[-1]).argmax()))
        np.testing.assert_array_equal(text, expected)


@pytest.mark.large
def test_the_users_pairs_are_compared(model, tmp_path):
    pairs = [(np.arange(4), np.arange(6)), (np.arange(9), np.arange(2))]
    report = export.to_litert(
        model,
        tmp_path / "file.tflite",
        source_length=SOURCE,
        sequence_length=ROOM,
        verification_data=pairs,
    )
    assert report.examples == 8


BEAMS = (
    generation.Beams(1),
    generation.Beams(3, 0.6),
    generation.Beams(3, 1.0, False),
)


@pytest.mark.parametrize("beams", large_except(BEAMS, BEAMS[1]))
def test_a_beam_search_in_the_file_is_that_of_keras(model, reports, beams):
    file = export.LiteRTSeq2Seq(reports["fp32"].file)
    end = 7
    search = generation.make_beam_search(model, beams, ROOM, end)
    rng = np.random.default_rng(5)
    for length in (4, SOURCE):
        source = rng.integers(0, VOCABULARY, (1, length)).astype("int32")
        (tokens,), (score,) = search(source, np.ones_like(source), [FIRST])
        found, found_score = generation.search_file(
            file, source[0], FIRST, beams, ROOM, end
        )
        np.testing.assert_array_equal(
            found + [end] * (ROOM - len(found)), tokens
        )
        assert found_score == pytest.approx(float(score), rel=1e-4)
