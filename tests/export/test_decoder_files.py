"""Files of a decoder's step: the same text as from Keras, never half a file."""

import pathlib

import keras_hub
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from kit.helpers import decoder, large_except

from kdkit import export, generation
from kdkit.errors import UsageError

VOCABULARY, WIDTH, ROOM = 120, 32, 12  # matrices large enough for 8 bits
PROMPT = [7, 3, 11]


@pytest.fixture(scope="module")
def model():
    return decoder(2, vocabulary_size=VOCABULARY, hidden_dim=WIDTH)


@pytest.fixture(scope="module")
def reports(model, tmp_path_factory):
    """Reports by precision, each written when a test first asks for it."""
    folder = tmp_path_factory.mktemp("decoders")

    class Reports(dict):
        def __missing__(self, precision):
            self[precision] = export.to_litert(
                model, folder / f"{precision}.tflite", precision
            )
            return self[precision]

    return Reports()


def greedy_text(model, prompt, length):
    """What keras-hub's own generation adds to a prompt."""
    model.compile(sampler="greedy")
    tokens = np.zeros((1, length), "int32")
    tokens[0, : len(prompt)] = prompt
    generated = model.generate(
        {
            "token_ids": tokens,
            "padding_mask": np.arange(length)[None] < len(prompt),
        },
        stop_token_ids=None,
    )
    return np.asarray(generated["token_ids"])[0, len(prompt) :]


PRECISIONS = large_except(export.PRECISIONS, "fp32", "int8")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_file_is_the_model(precision, reports):
    report = reports[precision]
    assert report.same_top_class == 1 or precision != "fp32"
    assert report.same_top_class > 0.8
    assert report.examples == 4 * ROOM
    if precision != "int8":
        limits = {"fp32": 1e-4, "fp16": 0.05}
        assert report.max_abs_difference < limits[precision]


@pytest.mark.large
def test_the_file_of_a_llama_is_the_model(tmp_path):
    """Rotary positions, and a cache of two heads for four of queries."""
    llama = decoder(2, family="llama3", vocabulary_size=VOCABULARY)
    report = export.to_litert(
        llama, tmp_path / "llama.tflite", sequence_length=ROOM
    )
    assert report.max_abs_difference < 1e-4
    file = export.LiteRTDecoder(report.file)
    text = generation.generate(file, PROMPT, ROOM - len(PROMPT))
    np.testing.assert_array_equal(text, greedy_text(llama, PROMPT, ROOM))


def test_a_stop_token_ends_the_text(model, reports):
    file = export.LiteRTDecoder(reports["fp32"].file)
    text = list(greedy_text(model, PROMPT, ROOM))
    stop = text[4]
    text = text[: text.index(stop)]
    got = generation.generate(file, PROMPT, 9, stop_token_ids=[stop])
    assert list(got) == text


def test_samplers_draw_by_their_seed(reports):
    file = export.LiteRTDecoder(reports["fp32"].file)
    drawn = [
        generation.generate(
            file, PROMPT, 9, keras_hub.samplers.RandomSampler(seed=seed)
        ).tolist()
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def tables(path):
    """How many tables of token embeddings have data in a file."""
    content = pathlib.Path(path).read_bytes()
    model = schema.ModelT.InitFromPackedBuf(bytearray(content), 0)
    return sum(
        tuple(tensor.shape if tensor.shape is not None else ())
        == (VOCABULARY, WIDTH)
        and model.buffers[tensor.buffer].data is not None
        for tensor in model.subgraphs[0].tensors
    )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_table_of_tokens_is_there_once(reports, precision):
    assert tables(reports[precision].file) == 1


def test_a_text_as_long_as_the_room_can_be_read(model, reports):
    file = export.LiteRTDecoder(reports["fp32"].file)
    text = np.arange(ROOM)
    whole = model(
        {"token_ids": text[None], "padding_mask": np.ones((1, ROOM), "int32")}
    )
    np.testing.assert_allclose(file(text), whole[0], atol=1e-4)
    with pytest.raises(RuntimeError, match="out of bounds"):
        file.step(0)
    with pytest.raises(UsageError, match="capacity is 12.*max_tokens=11"):
        generation.generate(file, PROMPT, 11)
    for precision in ("fp32", "int8"):
        file = export.LiteRTDecoder(reports[precision].file)
        with pytest.raises(RuntimeError, match="out of bounds"):
            file.step(VOCABULARY)
