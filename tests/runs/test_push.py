"""kdkit push: what it uploads, asks for and refuses, without a network."""

import json
import pathlib
import shutil

import huggingface_hub
import keras_hub
import pytest
from kit.adapter import command
from kit.encoders import encoder
from kit.run_checks import ENCODER_FILES

from kdkit import models

TO = "hf://ada/tiny"


@pytest.fixture
def preset(workspace, tmp_path):
    return shutil.copytree(workspace.path / "teacher", tmp_path / "tiny")


@pytest.fixture
def uploads(monkeypatch):
    """The calls of both libraries, which upload nothing."""
    calls = []

    class Api:
        def create_repo(self, name, private, exist_ok):
            calls.append(("create", name, private))

        def upload_file(self, repo_id, path_or_fileobj, path_in_repo):
            text = pathlib.Path(path_or_fileobj).read_text("utf-8")
            calls.append(("file", repo_id, path_in_repo, text))

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


def test_nothing_is_uploaded_without_yes(preset, uploads):
    answer = command(["push", preset, TO])
    assert answer.status == 2
    assert "--yes" in answer.err
    for file in ("README.md", "model.weights.h5"):
        assert file in answer.out
    assert command(["push", preset, TO, "--dry-run"]).status == 0
    assert uploads == []


def test_preset_is_uploaded_by_keras_hub_with_a_card(preset, uploads):
    before = sorted(preset.rglob("*"))
    words = ("push", preset, TO, "--yes", "--license", "apache-2.0")
    assert command(words).status == 0
    create, card, upload = uploads
    assert create == ("create", "ada/tiny", True)
    assert card[1:3] == ("ada/tiny", "README.md")
    assert 'license: "apache-2.0"' in card[3]
    assert upload[0] == TO
    assert upload[1] != str(preset)
    assert sorted(preset.rglob("*")) == before
    uploads.clear()
    assert command(["push", preset, TO, "--yes", "--public"]).status == 0
    assert uploads[0] == ("create", "ada/tiny", False)


def test_an_exported_file_is_uploaded_with_its_card_and_labels(
    workspace, tmp_path, uploads
):
    exported = workspace.exported_run(*ENCODER_FILES)
    run = shutil.copytree(exported, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["provenance"]["command"] = f"kdkit distill --teacher {tmp_path}/t"
    (run / "config.json").write_text(json.dumps(config))
    file = run / "exports" / "student-int8.tflite"
    words = ("push", file, TO, "--yes", "--license", "mit")
    assert command(words).status == 0
    (_, name, files) = uploads[-1]
    assert name == "ada/tiny"
    assert [*files] == ["README.md", "labels.txt", file.name]
    labels = json.loads((run / "student" / "labels.json").read_text())
    assert files["labels.txt"].split() == labels["classes"]
    card = files["README.md"]
    for text in (
        'license: "mit"',
        "| student |",
        "| student-int8.tflite | LiteRT | int8 |",
        "kdkit distill --teacher t",
    ):
        assert text in card, text
    assert str(tmp_path) not in card
    assert "| student-fp16.tflite |" not in card


def test_hugging_face_directory_is_uploaded_as_a_folder(tmp_path, uploads):
    models.save_hugging_face(encoder("bert"), None, tmp_path / "hf")
    assert command(["push", tmp_path / "hf", TO, "--yes"]).status == 0
    assert [call[0] for call in uploads] == ["create", "folder"]


def test_a_license_without_effect_is_refused(preset, uploads):
    (preset / "README.md").write_text("mine")
    for words, named in (
        ((preset, TO, "--yes", "--license", "mit"), "--license"),
        ((preset, "hf://ada", "--yes"), "hf://ada"),
        ((preset, TO, "--license", "GPL v3"), "GPL v3"),
    ):
        answer = command(["push", *words])
        assert answer.status == 2
        assert named in answer.err
    assert uploads == []
