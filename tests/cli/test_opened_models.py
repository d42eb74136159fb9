"""Models, files and texts that verbs refuse once they are opened."""

import argparse

import pytest

from kdkit import export
from kdkit.cli import generate, opened, places


def languages():
    model = argparse.Namespace(
        tokenizer=argparse.Namespace(languages=["en", "de"]),
        languages=(None, None),
    )
    opened.languages_of(argparse.Namespace(languages=None), model)


def embedder_at(path, length):
    names = ("pooling", "tokenizer", "sequence_length")
    options = argparse.Namespace(**dict.fromkeys(names))
    place = argparse.Namespace(path=path, run=None, length=length)
    return opened.open_embedder(place, options)


def test_a_teacher_reads_what_it_can_whatever_its_student_reads(workspace):
    found = embedder_at(workspace.make("sentence_embedding") / "student", 4)
    assert found.sequence_length == found.loaded.sequence_length > 4


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
