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
from kdkit.models.trust import require_safe_archive, require_safe_directory

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film", "##s"]


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A preset of a tiny classifier with its tokenizer."""
    path = tmp_path_factory.mktemp("presets") / "preset"
    tokenizer = keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=True)
    save_preset(bert(num_layers=1), tokenizer, path, 6)
    (path / "digests.json").unlink()  # a hostile one has none, or valid ones
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
LAYER = {"module": "os", "class_name": "system", "config": {"command": "ls"}}
HOSTILE = {
    "a class of another package": {
        "module": "os", "class_name": "system", "registered_name": "system",
    },
    "a layer of another package": {"config": {"dtype": LAYER}},
    "a lambda": {"config": {"activation": CODE}},
    "a Lambda layer": {"module": "keras.layers", "class_name": "Lambda"},
    "a SavedModel as a layer": {
        "module": "keras.layers", "class_name": "TFSMLayer",
        "config": {"filepath": "/tmp/evil"},
    },
    "a vocabulary elsewhere": {
        "class_name": "BertTokenizer", "config": {"vocabulary": "/etc/passwd"},
    },
    "a billion layers": {"config": {"num_layers": 10**9}},
    "a billion words": {
        "config": {"vocabulary_size": 10**9, "hidden_dim": 1024}
    },
    "layers that no memory holds": {
        "config": {
            "num_layers": 1000, "hidden_dim": 8000, "intermediate_dim": 8000
        }
    },
    "an endless width": {"config": {"hidden_dim": 10**12}},
}  # fmt: skip


@pytest.mark.parametrize("file", ["config.json", "task.json", "tokenizer.json"])
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_config_is_refused_before_it_is_loaded(what, file, copy):
    change(copy / file, **HOSTILE[what])
    for load in (lambda path: load_classifier(path, 3), load_encoder):
        with pytest.raises(UsageError, match=f"{file} is rejected"):
            load(copy)
    with pytest.raises(UsageError, match=f"{file} is rejected"):
        load_tokenizer(copy)


MANY = 60_000_000


@pytest.mark.parametrize(
    ("file", "keys"),
    [
        ("task.json", ("num_classes",)),
        ("task.json", ("backbone", "config", "num_segments")),
        ("config.json", ("num_segments",)),
    ],
)
def test_a_preset_of_a_size_that_its_weights_lack_is_refused(file, keys, copy):
    config = json.loads((copy / file).read_text())
    inner = config["config"]
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = MANY
    (copy / file).write_text(json.dumps(config))
    with pytest.raises(UsageError, match=f"{file} is rejected: a model of"):
        require_safe_directory(copy)


def test_a_tokenizer_is_loaded_from_where_the_weights_are_not(copy):
    for file in copy.glob("*.h5"):
        file.unlink()
    change_inner(copy / "config.json", "Backbone", num_segments=MANY)
    assert load_tokenizer(copy).get_vocabulary() == PIECES
    with pytest.raises(UsageError, match="a model of"):
        load_encoder(copy)


@pytest.mark.parametrize("size", ["vocab_size", "max_position_embeddings"])
def test_a_checkpoint_of_a_size_that_its_weights_lack_is_refused(
    size, tmp_path
):
    config = {
        "model_type": "bert",
        "hidden_size": 64,
        "dim": 1,  # which is no width of a BERT
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "hidden_dropout_prob": 0.1,
        "vocab_size": 30,
        "type_vocab_size": 2,
        "max_position_embeddings": 16,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    require_safe_directory(tmp_path)
    change(tmp_path / "config.json", **{size: MANY})
    with pytest.raises(UsageError, match="is rejected: a model of 384"):
        require_safe_directory(tmp_path)


@pytest.mark.parametrize(
    ("names", "size"),
    [
        (["Dense"], MANY),
        (["Dense", "Dense"], 10**5),
        (["LSTM"], MANY),
        (["Conv1D"], MANY),
    ],
)
def test_a_layer_of_a_size_that_its_weights_lack_is_refused(
    names, size, tmp_path
):
    path = tmp_path / "model.keras"
    layers = {
        "Dense": lambda: keras.layers.Dense(7),
        "LSTM": lambda: keras.layers.LSTM(7),
        "Conv1D": lambda: keras.layers.Conv1D(7, 3),
    }
    made = [layers[name]() for name in names]
    keras.Sequential([keras.Input((4, 16)), *made]).save(path)
    require_safe_archive(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = members["config.json"].decode()
    for place in ('"units": 7', '"filters": 7', "4, 7]"):
        config = config.replace(place, place.replace("7", str(size)))
    members["config.json"] = config
    make_archive(path, members)
    with pytest.raises(UsageError, match="model.keras is rejected: a model of"):
        require_safe_archive(path)


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
    (directory / "digests.json").unlink()
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


def test_words_that_are_called_as_sizes_are_no_sizes(copy):
    words = {"units": 41667, "dim": 27740, "num_layers": 30000, "class_name": 5}
    for model in ({"vocab": words}, {"model": {"vocab": words}}):
        change(copy / "config.json", label2id=words)
        change(copy / "tokenizer.json", **model)
        require_safe_directory(copy)
    # What is no vocabulary is not passed over for its name.
    change(copy / "tokenizer.json", vocab={"units": 10**9, "a": {}})
    with pytest.raises(UsageError, match="units 1000000000 by 1"):
        require_safe_directory(copy)


def test_files_outside_of_a_preset_are_refused(copy, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("\n".join(PIECES))
    vocabulary = copy / "assets" / "tokenizer" / "vocabulary.txt"
    vocabulary.unlink()
    vocabulary.symlink_to(secret)
    with pytest.raises(UsageError, match="link to .*outside"):
        load_tokenizer(copy)
    vocabulary.unlink()
    vocabulary.write_text(secret.read_text())
    (copy / "model.weights.h5").unlink()
    for name in ("../secret.txt", "/etc/passwd", "..", "a\\b", 3):
        index = {"metadata": {}, "weight_map": {"layers": name}}
        (copy / "model.weights.json").write_text(json.dumps(index))
        with pytest.raises(UsageError, match="not a file in this directory"):
            load_classifier(copy, 3)


def test_a_download_of_links_to_its_own_blobs_is_loaded(copy):
    blobs = copy.parent / "hub" / "blobs"
    snapshot = copy.parent / "hub" / "snapshots" / "1"
    snapshot.parent.mkdir(parents=True)
    copy.rename(snapshot)
    blobs.mkdir()
    (snapshot / "model.weights.h5").rename(blobs / "0")
    (snapshot / "model.weights.h5").symlink_to("../../blobs/0")
    assert load_classifier(snapshot, 3).model is not None


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


def test_archives_that_leave_their_place_or_grow_are_refused(tmp_path):
    path = tmp_path / "model.keras"
    cases = {
        "is outside": ({"config.json": "{}", "../../x": "y"}, 0),
        "outside of it": ({"config.json": "{}", "/etc/x": "y"}, 0),
        "grows from": ({"config.json": "{}", "assets/a": b"\0" * 10**8}, 8),
        "no config.json": ({"a": "b"}, 0),
        "expected a JSON object": ({"config.json": "["}, 0),
        "code": ({"config.json": json.dumps(HOSTILE["a Lambda layer"])}, 0),
    }
    for problem, (members, compression) in cases.items():
        make_archive(path, members, compression)
        with pytest.raises(UsageError, match=problem):
            load_classifier(path, 2)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UsageError, match="is damaged or not a Keras model"):
        load_classifier(path, 2)


def test_a_saved_lambda_is_refused_in_a_keras_file(tmp_path):
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Lambda(lambda x: 2 * x)(inputs))
    model.save(tmp_path / "model.keras")
    with pytest.raises(UsageError, match="Lambda, which contains code"):
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


def test_an_exported_file_that_was_changed_is_named(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(b"TFL3" * 1000)
    entry = metadata.Metadata("fp32", 1, None, "0")
    metadata.attach(path, entry)
    found = metadata.read(path)
    assert (found.precision, found.size) == ("fp32", 4000)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(UsageError, match="whose content has changed"):
        metadata.read(path)
    bomb = {metadata.ENTRY: b" " * 10**7}
    make_archive(path, bomb, zipfile.ZIP_DEFLATED)
    with pytest.raises(UsageError, match="an entry of 10000000 bytes"):
        metadata.read(path)
