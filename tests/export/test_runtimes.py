"""Files in the programs of others: names, shapes, strings, without kdkit."""

import json
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf
from kit.exported import (
    INPUTS,
    LENGTH,
    encoded,
    model_of,
    outputs,
    rows,
    softmax,
    word_pieces,
)
from kit.helpers import python_blocks, run_without_kdkit
from kit.real_texts import hostile_texts, real_texts
from kit.references import reference
from tensorflow.core.protobuf import saved_model_pb2
from tokenizers import normalizers

from kdkit import data, export, models
from kdkit.export.strings import string_encoder

PROGRAM = """
import json, sys
import numpy as np
import onnxruntime
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
{sketch}
batch, litert, onnx, saved_model = json.loads({given!r})
batch = {{name: np.array(rows, "int32") for name, rows in batch.items()}}
(found,) = Interpreter(litert).get_signature_runner()(**batch).values()
session = onnxruntime.InferenceSession(onnx)
answers = [found, session.run(None, batch)[0]]
loaded = tf.saved_model.load(saved_model)
answers.append(loaded.serve(batch).numpy())
answers = [one.tolist() for one in (*answers, scores.numpy())]
print(json.dumps([answers, "keras_hub" in sys.modules]))
"""
TEXTS = ["a fine film", "Déjà vu"]  # of the sketch


def test_files_of_every_format_run_without_kdkit(written):
    for name in ("onnxruntime", "tf2onnx"):
        reference(name)
    batch = rows(3, 9)
    names = ("litert", "onnx", "saved_model")
    *_, sketch = python_blocks("phone")
    given = [
        {name: batch[name].tolist() for name in INPUTS},
        *(written(name).file for name in names),
    ]
    program = PROGRAM.format(given=json.dumps(given), sketch=sketch)
    printed = run_without_kdkit(program, written.path / "saved_model")
    (*answers, scores), has_keras_hub = json.loads(printed.splitlines()[-1])
    assert not has_keras_hub
    model = model_of("classifier")
    for found in answers:
        np.testing.assert_allclose(found, outputs(model, batch), atol=1e-4)
    np.testing.assert_allclose(
        scores, softmax(outputs(model, encoded(TEXTS))), atol=1e-5
    )


@pytest.mark.parametrize(
    ("name", "output", "width"),
    [("onnx", "logits", 3), ("onnx_embedder", "sentence_embedding", 6)],
)
def test_onnx_runtime_reads_named_inputs_of_any_size(
    name, output, width, written
):
    onnxruntime = reference("onnxruntime")
    reference("tf2onnx")
    session = onnxruntime.InferenceSession(
        written(name).file, providers=["CPUExecutionProvider"]
    )
    axes = ["batch_size", "sequence_length"]
    given = {one.name: one.shape for one in session.get_inputs()}
    assert given == dict.fromkeys(INPUTS, axes)
    (found,) = session.get_outputs()
    assert (found.name, found.shape) == (output, ["batch_size", width])


@pytest.mark.parametrize("name", ["onnx", "onnx_int8"])
def test_onnx_files_read_matrices_in_products_and_lookups(name, written):
    onnx = reference("onnx")
    reference("tf2onnx")
    graph = onnx.load(written(name).file).graph
    floats = {
        tensor.name
        for tensor in graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1
    }
    users = {
        node.op_type for node in graph.node if floats.intersection(node.input)
    }
    # Biases, normalizations and the table of positions stay float32.
    in_float32 = {"Add", "Mul", "Slice"}
    matrices = {"Gather", "Gemm", "MatMul"} if name == "onnx" else set()
    assert users == in_float32 | matrices


def test_a_saved_model_calls_no_python(written):
    """Python's functions are in the process that wrote the file, only."""
    file = pathlib.Path(written("saved_model").file) / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    operations = {
        node.op
        for function in saved.meta_graphs[0].graph_def.library.function
        for node in function.node_def
    }
    assert "UnicodeDecode" in operations
    assert not {one for one in operations if "PyFunc" in one}


def test_another_tokenizer_in_the_graph_is_noticed(written):
    path = written("saved_model").file
    source = types.SimpleNamespace(
        extras=export.TextInputs(word_pieces(), LENGTH),  # without softmax
        model=model_of("classifier"),
        input_names=INPUTS,
    )
    with pytest.raises(RuntimeError, match="scores of strings differ"):
        export.get_exporter("saved_model").verify(source, path, path)


@pytest.mark.parametrize(
    ("padded", "side"), [(None, "right"), (LENGTH, "left")]
)
def test_a_graph_reads_pairs_as_kdkit_does(padded, side):
    made = word_pieces()
    made = models.Tokenizer(made.rust, made.tokens, side)
    inputs = export.TextInputs(made, LENGTH, 2, outputs="sigmoid")
    model = model_of("classifier")
    columns = (
        [*TEXTS, "", "the plot " * 20],
        ["dull", "", "a cast", "good " * 9],
    )
    graph = tf.function(
        inputs.scores(model, INPUTS, padded), inputs.signature()
    )
    logits = outputs(model, encoded(*columns, tokenizer=made))
    np.testing.assert_allclose(
        graph(*columns)["scores"], 1 / (1 + np.exp(-logits)), atol=1e-5
    )


def test_a_graph_with_other_ids_is_refused():
    """Here `tokenizers` joins characters, and a table takes each alone."""
    pieces = [*data.sentiment_vocabulary(), "plót"]
    made = models.word_piece_tokenizer(pieces, lowercase=False)
    made.rust.normalizer = normalizers.NFC()
    composed = models.Tokenizer(made.rust, made.tokens)
    texts = data.Examples((["a plo\u0301t"],))
    with pytest.raises(ValueError, match="get other ids"):
        string_encoder(composed, LENGTH, 1, texts)
    byte_pairs = models.train_byte_pairs(["a plot", "the plot"] * 9, 262)
    with pytest.raises(ValueError, match="needs word pieces.*BPE"):
        string_encoder(byte_pairs, LENGTH, 1, texts)


@pytest.mark.large
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_graph_gives_60_000_texts_the_ids_of_the_tokenizer(side, data_dir):
    vocabulary = data_dir / "vocab" / "bert-base-uncased-vocab.txt"
    made = models.load_tokenizer(vocabulary)
    made = models.Tokenizer(made.rust, made.tokens, side)
    texts = [*real_texts(data_dir, "sst2", 60_000), *hostile_texts()]
    for columns in ((texts,), (texts[::-1], texts)):
        examples = data.Examples(columns)  # compared while it is built
        string_encoder(made, LENGTH, len(columns), examples)
