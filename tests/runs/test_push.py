"""kdkit push: what it uploads, asks for and refuses, without a network."""

import json
import pathlib
import shutil

import huggingface_hub
import keras_hub
import pytest
from kit.encoders import encoder, tokenizer

from kdkit import models
from kdkit.cli.main import main
from kdkit.reporting.cards import MARKER

TO = "hf://ada/tiny"


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    path = tmp_path_factory.mktemp("push") / "tiny"
    models.save_preset(encoder("bert"), tokenizer("bert"), path, 8)
    return path


@pytest.fixture
def uploads(monkeypatch):
    """The calls of both libraries, which upload nothing."""
    calls = []

    class Api:
        def create_repo(self, name, private, exist_ok):
            calls.append(("create", name, private))

        def upload_file(self, repo_id, path_or_fileobj, path_in_repo):
            with open(path_or_fileobj, encoding="utf-8") as file:
                calls.append(("file", repo_id, path_in_repo, file.read()))

        def upload_folder(self, repo_id, folder_path):
            files = sorted(pathlib.Path(folder_path).iterdir())
            texts = {
                file.name: file.read_text("utf-8", "replace") for file in files
            }
            calls.append(("folder", repo_id, texts))

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(
        keras_hub, "upload_preset", lambda *given: calls.append(given)
    )
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    return calls


def push(*words):
    return main(["push", *map(str, words)])


def test_nothing_is_uploaded_without_yes(preset, uploads, capsys):
    assert push(preset, TO) == 2
    out, err = capsys.readouterr()
    assert f"{preset} to {TO}:\n  README.md" in out
    assert "model.weights.h5" in out
    assert "Nothing was uploaded. Pass --yes" in err
    assert push(preset, TO, "--dry-run") == 0
    assert "model.weights.h5" in capsys.readouterr().out
    assert uploads == []


def test_preset_is_uploaded_by_keras_hub_with_a_card(preset, uploads, capsys):
    before = sorted(preset.rglob("*"))
    words = ("--yes", "--license", "apache-2.0")
    assert push(preset, TO, *words) == 0
    assert f"Uploaded to {TO}." in capsys.readouterr().out
    create, card, upload = uploads
    assert create == ("create", "ada/tiny", True)
    assert card[1:3] == ("ada/tiny", "README.md")
    assert MARKER in card[3]
    assert 'license: "apache-2.0"' in card[3]
    assert upload[0] == TO
    assert upload[1] != str(preset)
    assert sorted(preset.rglob("*")) == before
    uploads.clear()
    assert push(preset, TO, "--yes", "--public") == 0
    assert uploads[0] == ("create", "ada/tiny", False)


def test_an_exported_file_is_uploaded_with_its_card_and_labels(
    finished_run, tmp_path, uploads, capsys
):
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    config = json.loads((run / "config.json").read_text())
    config["provenance"]["command"] = f"kdkit distill --teacher {tmp_path}/t"
    (run / "config.json").write_text(json.dumps(config))
    words = ["--precision", "int8", "fp16", "--no-teacher"]
    assert main(["export", str(run), *words, "--license", "mit"]) == 0
    file = run / "exports" / "student-int8.tflite"
    assert push(file, TO, "--yes") == 0
    (_, name, files) = uploads[-1]
    assert name == "ada/tiny"
    assert [*files] == ["README.md", "labels.txt", "student-int8.tflite"]
    assert files["labels.txt"] == "negative\npositive\n"
    card = files["README.md"]
    for text in (
        'license: "mit"',
        "| **student** |",
        "| student-int8.tflite | LiteRT | int8 |",
        "kdkit distill --teacher t",
    ):
        assert text in card, text
    assert str(tmp_path) not in card
    assert "| student-fp16.tflite |" not in card


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "hf"
    models.save_hugging_face(encoder("bert"), None, path)
    return path


def test_hugging_face_directory_is_uploaded_as_a_folder(
    checkpoint, uploads, capsys
):
    assert push(checkpoint, TO, "--yes") == 0
    assert [call[0] for call in uploads] == ["create", "folder"]


def test_a_license_without_effect_is_refused(preset, uploads, capsys):
    (preset / "README.md").write_text("mine")
    assert push(preset, TO, "--yes", "--license", "mit") == 2
    assert "--license does not change it" in capsys.readouterr().err
    assert push(preset, "hf://ada", "--yes") == 2
    assert "Unknown place to upload to" in capsys.readouterr().err
    assert push(preset, TO, "--license", "GPL v3") == 2
    assert "received 'GPL v3'" in capsys.readouterr().err
    assert uploads == []
