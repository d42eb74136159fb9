"""Hostile presets and model files are refused."""

import json
import shutil

import keras
import keras_hub
import pytest
from kit.helpers import bert, save_classifier

from kdkit.models import (
    load_classifier,
    load_tokenizer,
)

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film", "##s"]


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A preset of a tiny classifier with its tokenizer."""
    path = tmp_path_factory.mktemp("presets") / "preset"
    tokenizer = keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=True)
    save_classifier(bert(num_layers=1), tokenizer, path, 6)
    return path


@pytest.fixture
def copy(preset, tmp_path):
    """A copy of it to do harm to."""
    return shutil.copytree(preset, tmp_path / "preset")


def change_inner(file, name, **fields):
    """Changes the configs of all classes whose names end so."""

    def change_all(value):
        if not isinstance(value, dict):
            return
        for inner in value.values():
            change_all(inner)
        if str(value.get("class_name")).endswith(name):
            value["config"].update(fields)

    config = json.loads(file.read_text())
    change_all(config)
    file.write_text(json.dumps(config))


def test_a_preset_as_it_was_saved_is_loaded(copy):
    assert load_classifier(copy, 3).tokenizer is not None


CODE = {"class_name": "__lambda__", "config": {"value": "4wEAAAA="}}
FOREIGN = {
    "module": "os",
    "class_name": "system",
    "config": {"command": "ls"},
    "registered_name": "system",
}
SAVED_MODEL = {
    "module": "keras.layers",
    "class_name": "TFSMLayer",
    "config": {"filepath": "/tmp/evil"},
}


@pytest.mark.parametrize(
    ("fields", "named"),
    [(CODE, "lambda"), (FOREIGN, "'system'"), (SAVED_MODEL, "TFSMLayer")],
    ids=["code", "foreign class", "SavedModel"],
)
def test_safe_mode_refuses_code_in_a_preset(fields, named, copy):
    change_inner(copy / "task.json", "Classifier", activation=fields)
    with pytest.raises((TypeError, ValueError), match=named):
        load_classifier(copy, 3)


def test_a_vocabulary_in_another_place_is_not_read(copy):
    (copy / "kdkit_tokenizer.json").unlink()
    change_inner(copy / "tokenizer.json", "Tokenizer", vocabulary="/etc/passwd")
    with pytest.raises(TypeError, match="outside of the model archive"):
        load_tokenizer(copy)


def test_a_saved_lambda_is_refused_in_a_keras_file(tmp_path):
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Lambda(lambda x: 2 * x)(inputs))
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="lambda"):
        load_classifier(tmp_path / "model.keras", 2)
