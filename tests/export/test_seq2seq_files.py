"""Files of encoder-decoders: the same translation as from Keras."""

import keras
import numpy as np
import pytest
from kit.helpers import large_except, with_random_weights

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
