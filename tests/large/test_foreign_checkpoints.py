"""Verbs on a masked-language model as transformers saves it."""

import json
import warnings

import keras_hub
import numpy as np
import pytest
from kit.foreign import foreign_model
from kit.hugging_face import write_tokenizer

from kdkit import data
from kdkit.cli.main import main
from kdkit.models import load_classifier, load_masked_lm
from kdkit.models.variants import extra_settings
from kdkit.training import caching

pytestmark = pytest.mark.large

LENGTH = 16
SMALL = ["--task", "sentiment", "--set", "data.max_train_rows=32"]
SMALL += ["--set", "stages.0.epochs=1", "--set", "stages.0.batch_size=16"]
SMALL += ["--set", "jit_compile=false"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A BERT for masked tokens with exact GELU and without a pooler."""
    path = tmp_path_factory.mktemp("checkpoint")
    words = keras_hub.tokenizers.BertTokenizer(
        vocabulary=data.sentiment_vocabulary(), lowercase=True
    )
    foreign_model(
        "bert",
        "ForMaskedLM",
        vocab_size=words.vocabulary_size(),
        max_position_embeddings=64,
        num_hidden_layers=4,
        initializer_range=0.1,
    ).save_pretrained(path)
    write_tokenizer(path, "bert", words)
    return path


@pytest.fixture(scope="module")
def teacher_run(checkpoint, tmp_path_factory):
    """What `kdkit train-teacher` leaves."""
    path = tmp_path_factory.mktemp("runs") / "teacher"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        arguments = ["train-teacher", "--model", checkpoint, *SMALL]
        status = main([*map(str, arguments), "--run-dir", str(path)])
    assert status == 0
    return path


def inputs_of(model):
    ids = np.random.default_rng(0).integers(5, 40, (4, LENGTH))
    every = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
    }
    return {name: every[name].astype("int32") for name in model.input}


def test_a_fine_tuned_teacher_keeps_its_activation(teacher_run):
    saved = json.loads((teacher_run / "teacher" / "kdkit.json").read_text())
    assert saved["activation"] == "gelu"
    model = load_classifier(teacher_run, 2).model
    assert extra_settings(model) == {"activation": "gelu"}


@pytest.mark.large
def test_a_student_of_its_blocks_is_the_same_without_kdkit(
    checkpoint, teacher_run, tmp_path
):
    arguments = ["distill", "pkd", "--teacher", teacher_run]
    arguments += ["--num-layers", "2"]
    arguments += ["--pretrained", checkpoint, *SMALL]
    arguments += ["--run-dir", tmp_path / "run"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert main([*map(str, arguments)]) == 0
    ours = load_classifier(tmp_path / "run", 2).model
    assert type(ours.backbone) is keras_hub.models.BertBackbone
    place = str(tmp_path / "run" / "student")
    theirs = keras_hub.models.TextClassifier.from_preset(place)
    theirs.preprocessor = None
    inputs = inputs_of(ours)
    np.testing.assert_array_equal(ours(inputs), theirs(inputs))


def test_a_cache_of_its_outputs_is_of_this_reading(checkpoint, teacher_run):
    """Caches of 0.1 are refused: they have keras-hub's activation."""
    assert caching._reading(str(checkpoint)) == {"checkpoint_reading": 2}
    assert caching._reading(str(teacher_run / "teacher")) == {}
    assert caching._reading("bert_base_en_uncased") == {}


@pytest.mark.large
def test_pretraining_goes_on_with_its_head(checkpoint, tmp_path):
    corpus = tmp_path / "corpus.txt"
    texts = data.load_sentiment("train").texts[0][:400]
    corpus.write_text("\n".join(texts))
    arguments = ["pretrain", "--model", checkpoint, "--corpus", corpus]
    arguments += ["--set", "stages.0.epochs=1"]
    arguments += ["--set", "corpus.sequence_length=16"]
    arguments += ["--set", "jit_compile=false"]
    arguments += ["--set", "stages.0.learning_rate=1e-12"]
    assert main([*map(str, arguments), "--run-dir", str(tmp_path / "run")]) == 0
    before = load_masked_lm(checkpoint).model
    after = load_masked_lm(tmp_path / "run").model
    assert extra_settings(after) == extra_settings(before)
    for one, two in zip(before.weights, after.weights, strict=True):
        if "pooled_dense" not in one.path:
            np.testing.assert_allclose(one, two, atol=1e-6)
