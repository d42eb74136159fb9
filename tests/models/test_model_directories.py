"""Directories next to a model, or with one in another form."""

import json
import shutil

import pytest
from hugging_face import write_checkpoint

from kdkit.cli.main import main
from kdkit.errors import UsageError
from kdkit.models import (
    load_classifier,
    load_encoder,
    load_masked_lm,
    load_tokenizer,
)

HASH = "e4ce9877abf3edfe10b0d82785e83bdcb973e22e"


def checkpoint(path):
    path.mkdir(parents=True)
    write_checkpoint(path, "distil_bert")
    return path


def without_weights(path):
    checkpoint(path)
    (path / "model.safetensors").unlink()
    return path


def trainer_folder(path):
    for step in (1000, 500):
        checkpoint(path / f"checkpoint-{step}")
    return f"Use {path / 'checkpoint-1000'}."


def hub_folder(path):
    place = path / "models--sentence-transformers--a"
    for name in (HASH, "f" * 40):
        checkpoint(place / "snapshots" / name)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(f"{HASH}\n")
    return place / "snapshots" / HASH


def file_of_weights(name):
    def make(path):
        file = without_weights(path) / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"weights")
        return name

    return make


def adapter(path):
    path.mkdir()
    config = {"base_model_name_or_path": "bert-base-uncased"}
    (path / "adapter_config.json").write_text(json.dumps(config))
    (path / "adapter_model.safetensors").write_bytes(b"weights")
    return "an adapter for 'bert-base-uncased'.*merge_and_unload"


def pointer(path):
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    (without_weights(path) / "model.safetensors").write_text(text)
    return "Run git lfs pull"


def dangling_link(path):
    file = without_weights(path) / "model.safetensors"
    file.symlink_to(path / "gone")
    return "a link to a file that does not exist"


def no_weights(path):
    without_weights(path)
    return "a config.json and no weights"


def sentence_transformer(path):
    place = checkpoint(path / "0_Transformer")
    (path / "modules.json").write_text("[]")
    return f"Use {place}."


PLACES = {
    "a trainer's folder": trainer_folder,
    "a folder of the hub's cache": lambda path: (
        shutil.move(hub_folder(path / "hub").parent.parent, path / "one")
        and f"Use {path / 'one' / 'snapshots' / HASH}."
    ),
    "the hub's cache": lambda path: f"example {hub_folder(path)}",
    "pytorch_model.bin": file_of_weights("pytorch_model.bin"),
    "sharded bin": file_of_weights("pytorch_model-00001-of-00002.bin"),
    "tf_model.h5": file_of_weights("tf_model.h5"),
    "flax": file_of_weights("flax_model.msgpack"),
    "onnx": file_of_weights("onnx/model.onnx"),
    "a variant": file_of_weights("model.fp16.safetensors"),
    "an adapter": adapter,
    "a pointer of Git LFS": pointer,
    "a link to nothing": dangling_link,
    "no weights": no_weights,
    "sentence-transformers 1": sentence_transformer,
}


@pytest.mark.parametrize("name", PLACES)
def test_one_line_says_what_to_do(name, tmp_path):
    place = tmp_path / "place"
    expected = PLACES[name](place)
    place = place / "one" if (place / "one").exists() else place
    messages = set()
    for load in (
        load_encoder,
        load_masked_lm,
        lambda source: load_classifier(source, 2),
        lambda source: load_encoder(source, load_weights=False),
    ):
        with pytest.raises(UsageError, match=expected) as raised:
            load(place)
        messages.add(str(raised.value))
    (message,) = messages  # the first thing said, wherever it is loaded
    assert "\n" not in message
    assert "Expected" in message or "Received" in message


def test_pickles_are_not_opened_and_the_way_to_convert_is_said(tmp_path):
    place = tmp_path / "place"
    file_of_weights("pytorch_model.bin")(place)
    with pytest.raises(UsageError, match="not open pickles.*save_pretrained"):
        load_encoder(place)


def test_a_tokenizer_alone_needs_no_weights(tmp_path):
    place = without_weights(tmp_path / "place")
    assert load_tokenizer(place).vocabulary_size() > 5


def test_a_model_loads_next_to_an_adapter_s_config_not_its_weights(tmp_path):
    place = checkpoint(tmp_path / "place")
    (place / "adapter_config.json").write_text("{}")
    load_encoder(place)
    (place / "adapter_model.safetensors").write_bytes(b"weights")
    with pytest.raises(UsageError, match="contains an adapter"):
        load_encoder(place)


@pytest.mark.parametrize("name", ["a trainer's folder", "pytorch_model.bin"])
def test_verbs_say_it_first(name, tmp_path, capsys):
    place = tmp_path / "place"
    expected = PLACES[name](place)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a film\n" * 100)
    arguments = ["pretrain", "--model", place, "--corpus", corpus]
    arguments += ["--run-dir", tmp_path / "run"]
    assert main([*map(str, arguments)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert expected in lines[0]
