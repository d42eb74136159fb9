"""Verbs name the path that is not there."""

import pytest

from kdkit.cli.main import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "teacher2").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("distill pkd --task sst2 --run-dir run --teacher a/b", "a/b"),
        ("evaluate runs/teacher", "runs/teacher"),
        ("export student.keras", "student.keras"),
        ("benchmark runs/a.tflite", "runs/a.tflite"),
        ("report runs/teacher1", "runs/teacher1"),
    ],
)
def test_a_path_that_is_not_there_is_named(words, place, folder, capsys):
    assert main(words.split()) == 2
    assert place in capsys.readouterr().err
    assert not (folder / "run").exists()
