"""Files of decoders and encoder-decoders: the same texts as from Keras."""

import functools
import pathlib

import keras
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from kit.encoders import DECODERS
from kit.helpers import decoder, large_except, mass, with_random_weights

from kdkit import export, generation

VOCABULARY, WIDTH = 120, 32  # matrices large enough for 8 bits
ROOM, SOURCE, END = 12, 10, 7
PROMPT = [7, 3, 11]


@functools.cache
def model_of(kind):
    """A decoder of a family, or an encoder-decoder."""
    if kind != "mass":
        sizes = {"hidden_dim": WIDTH} if kind == "gpt2" else {}
        return decoder(2, family=kind, vocabulary_size=VOCABULARY, **sizes)
    keras.utils.set_random_seed(0)
    sizes = (VOCABULARY, 1, 2, 2, WIDTH, 40)
    model = mass(*sizes, max_sequence_length=ROOM)
    return with_random_weights(model, scale=0.2)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A function that returns a file's report; writes it when first asked."""
    folder = tmp_path_factory.mktemp("files")

    @functools.cache
    def write(kind, precision):
        lengths = {"mass": (SOURCE, ROOM), "gpt2": (None, None)}
        source_length, sequence_length = lengths.get(kind, (None, ROOM))
        return export.to_litert(
            model_of(kind),
            folder / f"{kind}-{precision}.tflite",
            precision,
            source_length=source_length,
            sequence_length=sequence_length,
        )

    return write


CASES = [
    ("gpt2", "fp32"), ("gpt2", "fp16"), ("gpt2", "int8"), ("llama3", "fp32"),
    ("qwen3", "fp32"), ("mass", "fp32"), ("mass", "int8"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "precision"),
    large_except(CASES, *CASES[:1], *CASES[2:3], *CASES[5:]),
)
def test_the_file_is_the_model(kind, precision, written):
    report = written(kind, precision)
    assert report.examples == 4 * ROOM
    assert report.same_top_class >= (1 if precision == "fp32" else 0.8)
    if precision == "int8":
        assert report.size_bytes < written(kind, "fp32").size_bytes
    else:
        limits = {"fp32": 1e-4, "fp16": 0.05}
        assert report.max_abs_difference < limits[precision]


def num_tables(path):
    """How many tables of token embeddings have data, in all signatures."""
    content = bytearray(pathlib.Path(path).read_bytes())
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    buffers = {
        tensor.buffer
        for graph in model.subgraphs
        for tensor in graph.tensors
        if tensor.shape is not None
        and sorted(tensor.shape) == [WIDTH, VOCABULARY]
        and model.buffers[tensor.buffer].data is not None
    }
    return len(buffers)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("kind", ["gpt2", "mass"])
def test_the_table_of_tokens_is_there_once(kind, precision, written):
    assert num_tables(written(kind, precision).file) == 1


def keras_text(model, length):
    """What keras-hub's own generation adds to the prompt."""
    model.compile(sampler="greedy")
    tokens = np.zeros((1, length), "int32")
    tokens[0, : len(PROMPT)] = PROMPT
    mask = np.arange(length)[None] < len(PROMPT)
    x = {"token_ids": tokens, "padding_mask": mask}
    generated = model.generate(x, stop_token_ids=None)["token_ids"]
    return np.asarray(generated)[0, len(PROMPT) :].tolist()


@pytest.mark.parametrize("kind", large_except([*DECODERS], "gpt2"))
def test_the_file_writes_what_keras_does_until_a_stop_token(kind, written):
    file = export.LiteRTDecoder(written(kind, "fp32").file)
    text = keras_text(model_of(kind), ROOM)
    found = generation.generate(file, PROMPT, ROOM - len(PROMPT))
    assert list(found) == text
    stop = text[4]
    found = generation.generate(file, PROMPT, 9, stop_token_ids=[stop])
    assert list(found) == text[: text.index(stop)]
    assert not generation.generate(file, PROMPT, 0).size


def test_a_text_as_long_as_the_room_can_be_read(written):
    file = export.LiteRTDecoder(written("gpt2", "fp32").file)
    text = np.arange(ROOM)
    x = {"token_ids": text[None], "padding_mask": np.ones((1, ROOM), "int32")}
    whole = model_of("gpt2")(x)
    np.testing.assert_allclose(file(text), whole[0], atol=1e-4)
    with pytest.raises(RuntimeError, match="out of bounds"):
        file.step(0)
    with pytest.raises(ValueError, match="max_tokens=11"):
        generation.generate(file, PROMPT, 11)
    for precision in ("fp32", "int8"):
        file = export.LiteRTDecoder(written("gpt2", precision).file)
        with pytest.raises(RuntimeError, match="out of bounds"):
            file.step(VOCABULARY)


BEAMS = (
    generation.Beams(1),
    generation.Beams(3, 0.6),
    generation.Beams(3, 1.0, False),
)


@pytest.mark.parametrize("beams", large_except(BEAMS, BEAMS[1]))
def test_a_beam_search_in_the_file_is_that_of_keras(beams, written):
    file = export.LiteRTSeq2Seq(written("mass", "fp32").file)
    search, of_file = (
        generation.make_beam_search(one, beams, ROOM, END)
        for one in (model_of("mass"), file)
    )
    rng = np.random.default_rng(5)
    for length in (4, SOURCE):
        source = rng.integers(0, VOCABULARY, (1, length)).astype("int32")
        given = source, np.ones_like(source), [5]
        (tokens, scores), (found, found_scores) = (
            search(*given),
            of_file(*given),
        )
        np.testing.assert_array_equal(found, tokens)
        assert found_scores == pytest.approx(scores, rel=1e-4)
