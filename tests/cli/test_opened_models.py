"""Models, files and texts that verbs refuse once they are opened."""

import argparse

import pytest

from kdkit import export
from kdkit.cli import generate, models, opened_embedders, texts


def languages():
    model = argparse.Namespace(
        tokenizer=argparse.Namespace(languages=["en", "de"]),
        languages=(None, None),
    )
    texts.languages_of(argparse.Namespace(languages=None), model)


def file_of_logits():
    opened_embedders.open_embedder(
        argparse.Namespace(path="a.tflite"), argparse.Namespace(pooling=None)
    )


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (languages, "two of en, de"),
        (
            lambda: models.require_labels(
                argparse.Namespace(labels=None), "test"
            ),
            "'test' has no labels",
        ),
        (lambda: generate._lines("lines.txt"), "line 2: expected a text"),
        (file_of_logits, "a.tflite returns logits"),
    ],
)
def test_models_and_texts_that_are_other_ones_are_refused(
    call, named, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    file = argparse.Namespace(outputs="logits")
    monkeypatch.setattr(export, "open_file", lambda *_: file)
    (tmp_path / "lines.txt").write_text("one\n\ntwo\n")
    with pytest.raises(ValueError, match=named):
        call()
