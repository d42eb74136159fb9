"""SavedModels that contain the tokenizer."""

import json
import os
import subprocess
import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from kit.encoders import encoder
from kit.encoders import tokenizer as family_tokenizer
from kit.helpers import python_blocks, sentiment_student, with_random_weights

from kdkit import data, export, models
from kdkit.errors import RunError
from kdkit.export.exporters import get_exporter
from kdkit.export.inputs import INPUT_NAMES
from kdkit.export.texts import difficult_examples

LENGTH = 16
STATES = """
import json, sys
print(json.dumps([scores.numpy().tolist(), sorted(sys.modules)]))
"""


@pytest.fixture(scope="module")
def student():
    return with_random_weights(sentiment_student()[0])


@pytest.fixture(scope="module")
def tokenizer():
    return models.word_piece_tokenizer(data.sentiment_vocabulary(), True)


def expected_scores(student, tokenizer, examples):
    encoded = data.encode(examples, tokenizer, LENGTH)
    batch = encoded.inputs(np.arange(len(encoded)), LENGTH)
    return keras.ops.softmax(
        student({name: batch[name] for name in student.input})
    )


def test_the_sketch_of_the_page_runs_without_kdkit(
    student, tokenizer, tmp_path
):
    path = tmp_path / "runs" / "tinybert" / "exports" / "student-saved_model"
    export.to_saved_model(
        student,
        path,
        strings=export.TextInputs(tokenizer, LENGTH, outputs="softmax"),
    )
    source = types.SimpleNamespace(
        extras=export.TextInputs(tokenizer, LENGTH),  # without softmax
        model=student,
        input_names=INPUT_NAMES,
    )
    with pytest.raises(RunError, match="scores of strings differ"):
        get_exporter("saved_model").verify(source, path, path)
    *_, sketch = python_blocks("phone")
    result = subprocess.run(
        [sys.executable, "-c", sketch + STATES],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    scores, modules = json.loads(result.stdout.splitlines()[-1])
    assert not {"kdkit", "keras_hub"} & set(modules)
    examples = data.Examples((["a fine film", "Déjà vu"],))
    np.testing.assert_allclose(
        scores, expected_scores(student, tokenizer, examples), atol=1e-5
    )


@pytest.mark.large
def test_pairs_are_two_inputs_of_any_batch_size(student, tokenizer, tmp_path):
    path = tmp_path / "model"
    export.to_saved_model(
        student,
        path,
        strings=export.TextInputs(
            tokenizer, LENGTH, num_texts=2, outputs="softmax"
        ),
    )
    loaded = tf.saved_model.load(str(path))
    examples = difficult_examples(2)
    for rows in (range(len(examples)), [3]):
        some = examples.take(rows)
        received = loaded.signatures["strings"](
            first=tf.constant(some.texts[0]), second=tf.constant(some.texts[1])
        )["scores"]
        np.testing.assert_allclose(
            received, expected_scores(student, tokenizer, some), atol=1e-5
        )
    batch = {name: np.ones((2, 5), "int32") for name in student.input}
    np.testing.assert_allclose(
        export.open_file(path)(batch), student(batch), atol=1e-5
    )


@pytest.mark.large
def test_tables_of_keras_hubs_own_byte_pairs_are_saved(tmp_path):
    tokens = family_tokenizer("roberta")
    model = encoder("roberta", vocabulary_size=tokens.vocabulary_size())
    path = tmp_path / "model"
    export.to_saved_model(
        model, path, strings=export.TextInputs(tokens, LENGTH // 2)
    )
    texts = ["the weak plot", "a new word"]
    loaded = tf.saved_model.load(str(path))
    received = loaded.strings(tf.constant(texts))
    encoded = data.encode(data.Examples((texts,)), tokens, LENGTH // 2)
    batch = encoded.inputs(np.arange(2), LENGTH // 2)
    np.testing.assert_allclose(
        received["scores"],
        model({name: batch[name] for name in model.input}),
        atol=1e-5,
    )
