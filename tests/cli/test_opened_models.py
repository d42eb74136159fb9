"""Models, files and texts that verbs refuse once they are opened."""

import argparse
import pathlib

import pytest
from kit.reports import RunWriter, config

from kdkit import export
from kdkit.cli import generate, opened, places
from kdkit.cli.verb_flags import TABLE


def languages():
    model = argparse.Namespace(
        tokenizer=argparse.Namespace(languages=["en", "de"]),
        languages=(None, None),
    )
    opened.languages_of(argparse.Namespace(languages=None), model)


def embedder_at(path, length):
    names = ("pooling", "tokenizer", "sequence_length")
    options = argparse.Namespace(**dict.fromkeys(names))
    place = argparse.Namespace(path=path, run=None, length=length, arm=None)
    return opened.open_embedder(place, options)


def test_a_teacher_reads_what_it_can_whatever_its_student_reads(workspace):
    found = embedder_at(workspace.make("sentence_embedding") / "student", 4)
    assert found.sequence_length == found.loaded.sequence_length > 4


@pytest.mark.parametrize("task", [None, "own.toml"])
def test_an_exported_file_has_the_classes_of_its_run(
    task, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    RunWriter(pathlib.Path("run"), config())
    for folder in ("run/student", "run/exports"):
        pathlib.Path(folder).mkdir()
    pathlib.Path("run/student/config.json").write_text("{}")
    pathlib.Path("run/student/labels.json").write_text(
        '{"classes": ["b", "a"]}'
    )
    pathlib.Path("run/exports/student-int8.tflite").touch()
    pathlib.Path("own.csv").write_text("text,label\nx,a\ny,b\n")
    given = {"test": "own.csv", "text_column": "text", "label_column": "label"}
    pathlib.Path("own.toml").write_text(
        "".join(f'{name} = "{value}"\n' for name, value in given.items())
    )
    options = argparse.Namespace(
        **dict.fromkeys((*TABLE, "data_dir", "tokenizer")), task=task
    )
    vars(options).update({} if task else given)
    place = places.locate("run/exports/student-int8.tflite")
    assert places.measured_task(place, options)[0].class_names == ("b", "a")


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (languages, "two of en, de"),
        (
            lambda: places.require_labels(
                argparse.Namespace(labels=None), "test"
            ),
            "'test' has no labels",
        ),
        (lambda: generate._lines("lines.txt"), "line 2: expected a text"),
        (lambda: embedder_at("a.tflite", None), "a.tflite returns logits"),
    ],
)
def test_models_and_texts_that_are_other_ones_are_refused(
    call, named, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    file = argparse.Namespace(outputs="logits", kind="", sequence_length=8)
    monkeypatch.setattr(export, "open_file", lambda *_: file)
    monkeypatch.setattr(opened, "file_tokenizer", lambda *_: None)
    (tmp_path / "lines.txt").write_text("one\n\ntwo\n")
    with pytest.raises(ValueError, match=named):
        call()
