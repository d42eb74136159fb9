"""Downloads are announced, and refused in seconds without a connection."""

import socket
import threading
import time

import keras_hub
import pytest

from kdkit import models
from kdkit.errors import UsageError
from kdkit.io import network
from kdkit.io.network import require_connection
from kdkit.models import places
from kdkit.models.places import preset_table


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    monkeypatch.setattr(network, "_failures", {})
    monkeypatch.setattr(places, "_announced", set())


@pytest.fixture
def asked(monkeypatch):
    """The servers that were asked, none of which answers."""
    addresses = []

    def problem(address):
        addresses.append(address)
        return "no route"

    monkeypatch.setattr(network, "_problem", problem)
    return addresses


def test_any_answer_is_a_connection():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            connection.recv(1000)
            connection.sendall(b"HTTP/1.0 404 Not Found\r\n\r\n")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        port = server.getsockname()[1]
        require_connection([f"http://127.0.0.1:{port}/x"], "This", "Stop.")


def test_server_that_never_answers_is_waited_for_once(monkeypatch):
    monkeypatch.setattr(network, "SECONDS", 0.2)
    monkeypatch.setattr(network, "_problem", lambda address: time.sleep(5))
    for _ in range(2):
        before = time.monotonic()
        with pytest.raises(UsageError) as info:
            require_connection(["http://a.b/c", "http://d"], "This", "Stop.")
        assert str(info.value) == (
            "This cannot be downloaded: a.b, d cannot be reached (no answer "
            "within 0.2 s). Stop."
        )
    assert time.monotonic() - before < 0.1


def test_each_server_is_asked_once_a_minute(asked, monkeypatch):
    files = ["http://a/1", "http://a/2", "http://b/1"]
    for _ in range(3):
        with pytest.raises(UsageError, match=r"a, b cannot.*\(no route\)"):
            require_connection(files, "This", "Stop.")
    assert sorted(asked) == ["http://a/2", "http://b/1"]
    monkeypatch.setattr(network, "REMEMBERED", 0)
    with pytest.raises(UsageError):
        require_connection(files, "This", "Stop.")
    assert len(asked) == 4


def test_no_file_needs_no_connection(asked):
    require_connection([], "This", "Stop.")


def test_table_of_presets_is_that_of_keras_hub():
    table = preset_table()
    assert set(keras_hub.models.Backbone.presets) <= set(table)
    name = "bert_base_en_uncased"
    assert table[name] == keras_hub.models.BertBackbone.presets[name]


def test_name_of_no_preset_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(UsageError, match="Did you mean 'bert_tiny_en_unca"):
        models.check_place("bert_tiny_uncased")
    models.check_place("bert_tiny_en_uncased")
    models.check_place("hf://somebody/something")
    models.check_place(tmp_path)
    with pytest.raises(UsageError, match="no such file"):
        models.check_place(tmp_path / "nothing")


def test_preset_is_announced_once_with_source_place_and_size(
    asked, tmp_path, monkeypatch, logged
):
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path))
    for load in (
        lambda: models.load_classifier("bert_tiny_en_uncased", 2),
        lambda: models.load_encoder("bert_tiny_en_uncased"),
    ):
        with pytest.raises(UsageError, match="api.kaggle.com cannot be"):
            load()
    assert asked == ["https://api.kaggle.com"]
    handle = preset_table()["bert_tiny_en_uncased"]["kaggle_handle"]
    place = tmp_path / "models" / handle.removeprefix("kaggle://")
    (said,) = logged().splitlines()
    assert said == (
        f"Downloading bert_tiny_en_uncased from {handle} to {place}, about "
        "18 MB."
    )
    place.mkdir(parents=True)
    (place / "config.json").write_text("{}")
    places.announce_download("bert_tiny_en_uncased")
    assert len(asked) == 1


def test_handle_of_hugging_face_is_announced(
    asked, tmp_path, monkeypatch, logged
):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match="huggingface.co cannot"):
        models.announce_download("hf://somebody/something")
    said = logged()
    assert f"to {tmp_path / 'models--somebody--something'}." in said
