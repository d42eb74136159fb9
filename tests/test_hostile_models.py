"""Hostile presets, archives and model files."""

import json
import subprocess
import zipfile

import keras
import keras_hub
import numpy as np
import pytest
from helpers import bert

from kdkit.errors import UsageError
from kdkit.export import metadata
from kdkit.models import load_classifier, load_encoder, load_tokenizer
from kdkit.models.saving import save_preset
from kdkit.models.tokenizers import save_tokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film", "##s"]


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A preset of a tiny classifier with its tokenizer."""
    path = tmp_path_factory.mktemp("presets") / "preset"
    tokenizer = keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=True)
    save_preset(bert(num_layers=1), tokenizer, path, 6)
    return path


@pytest.fixture
def copy(preset, tmp_path):
    """A copy of it to do harm to."""
    target = tmp_path / "preset"
    subprocess.run(["cp", "-r", str(preset), str(target)], check=True)
    return target


def change(file, **fields):
    config = json.loads(file.read_text())
    config.update(fields)
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
    ("fields", "problem"),
    [
        (CODE, "lambda"),
        (FOREIGN, "Could not locate class 'system'"),
        (SAVED_MODEL, "TFSMLayer"),
    ],
    ids=["code", "foreign class", "SavedModel"],
)
def test_safe_mode_refuses_code_in_a_preset(fields, problem, copy):
    change_inner(copy / "task.json", "Classifier", activation=fields)
    with pytest.raises(UsageError, match="cannot be loaded") as raised:
        load_classifier(copy, 3)
    assert problem in str(raised.value.__cause__)


def test_an_encoder_of_another_package_is_not_loaded(copy):
    change(copy / "config.json", **FOREIGN)
    for load in (lambda path: load_classifier(path, 3), load_encoder):
        with pytest.raises(UsageError) as raised:
            load(copy)
        assert "system" in str(raised.value.__cause__)


def test_a_vocabulary_in_another_place_is_not_read(copy):
    change_inner(copy / "tokenizer.json", "Tokenizer", vocabulary="/etc/passwd")
    with pytest.raises(UsageError, match="cannot be loaded") as raised:
        load_tokenizer(copy)
    assert "outside of the model archive" in str(raised.value.__cause__)


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


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"sequence_length": 16}, "sequence_length=null.*Received: 16"),
        ({"sequence_length": 10**9}, "sequence_length=null"),
        ({"sequence_length": "x"}, "sequence_length=null"),
        ({"dtype": "string"}, "an integer dtype. Received: 'string'"),
        ({"split": False}, "split=true"),
    ],
)
def test_a_tokenizer_that_gives_no_lists_of_ids_is_refused(
    fields, problem, copy
):
    for file in ("task.json", "preprocessor.json", "tokenizer.json"):
        change_inner(copy / file, "Tokenizer", **fields)
    for load in (lambda path: load_classifier(path, 3), load_encoder):
        with pytest.raises(UsageError, match=problem):
            load(copy)
    with pytest.raises(UsageError, match=problem):
        load_tokenizer(copy)
    (copy / "task.json").unlink()
    with pytest.raises(UsageError, match=problem):
        load_classifier(copy, 3)


@pytest.mark.parametrize(
    "config",
    [
        {
            "module": "keras.layers",
            "class_name": "StringLookup",
            "config": {"vocabulary": ["a"]},
        },
        {
            "module": "keras_hub.tokenizers",
            "class_name": "WordPieceTokenizer",
            "config": {},
        },
        {"a": 1},
    ],
)
def test_what_is_no_tokenizer_of_a_family_is_refused(config, tmp_path):
    directory = tmp_path / "tokenizer"
    save_tokenizer(keras_hub.tokenizers.BertTokenizer(PIECES), directory)
    assert load_tokenizer(tmp_path).get_vocabulary() == PIECES
    (directory / "tokenizer.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="expected one of .*'BertTokenizer'"):
        load_tokenizer(tmp_path)


def test_a_head_whose_activation_takes_no_logits_is_refused(copy):
    change_inner(copy / "task.json", "Classifier", activation="tanh")
    load_classifier(copy, 3)
    function = {"module": "keras.ops", "class_name": "function"}
    for name, problem in (
        ("zeros", "cannot be"),
        ("sum", "shape of the"),
    ):
        function |= {"config": name, "registered_name": name}
        change_inner(copy / "task.json", "Classifier", activation=function)
        with pytest.raises(UsageError, match=problem) as told:
            load_classifier(copy, 3)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["model.weights.h5", "task.weights.h5"])
@pytest.mark.parametrize("damage", ["cut off", "other bytes", "empty"])
def test_damaged_weights_are_one_line(name, damage, copy):
    content = bytearray((copy / name).read_bytes())
    if damage == "cut off":
        content = content[: len(content) // 2]
    elif damage == "empty":
        content = b""
    else:
        content[:64] = b"\xff" * 64
    (copy / name).write_bytes(content)
    with pytest.raises(UsageError, match="cannot be loaded") as told:
        load_classifier(copy, 3)
    assert "\n" not in str(told.value)


@pytest.mark.filterwarnings("ignore:Skipping nested container")
def test_links_in_weights_are_refused(copy, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(copy / "model.weights.h5", "r+") as file:
        found = []
        file.visit(found.append)
        place = next(one for one in found if one.endswith("vars/0"))
        shape = file[place].shape
        with h5py.File(tmp_path / "other.h5", "w") as other:
            other["secret"] = np.zeros(shape)
        del file[place]
        file[place] = h5py.ExternalLink(str(tmp_path / "other.h5"), "secret")
    with pytest.raises(UsageError, match="1 objects could not be loaded"):
        load_classifier(copy, 3)


def make_archive(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_a_saved_lambda_is_refused_in_a_keras_file(tmp_path):
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Lambda(lambda x: 2 * x)(inputs))
    model.save(tmp_path / "model.keras")
    with pytest.raises(UsageError, match="lambda"):
        load_classifier(tmp_path / "model.keras", 2)


def test_what_an_exported_file_says_is_the_same_at_any_time(
    tmp_path, monkeypatch
):
    contents = set()
    for second in (1e9, 2e9):
        path = tmp_path / f"{second}.tflite"
        path.write_bytes(b"TFL3" * 10)
        monkeypatch.setattr("time.time", lambda second=second: second)
        metadata.attach(path, metadata.Metadata("fp32", 1, None, "0"))
        contents.add(path.read_bytes())
    assert len(contents) == 1
