"""Models, files and texts that verbs refuse once they are opened.

Of kdkit.cli: choosing, generate, opened_embedders, options, texts; of
kdkit.runs: ranker_parts, settings.
"""

import argparse

import pytest

from kdkit import export, models
from kdkit.cli import choosing, generate, opened_embedders, options, texts
from kdkit.recipes import RECIPES
from kdkit.runs.ranker_parts import RankerParts
from kdkit.runs.settings import require_cacheable


def recipe_for(recipe, stage=None):
    options = argparse.Namespace(
        teacher="a", stage=stage, parity=None, pairs=None
    )
    return lambda: choosing.recipe_on_text(RECIPES[recipe], options)


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


def cached_source():
    loss = argparse.Namespace(counts_padding=False)
    objective = {"name": "a", "tap": "encoder_hidden_states", "loss": loss}
    require_cacheable([argparse.Namespace(**objective)])


def compared_by_manhattan():
    parts = object.__new__(RankerParts)
    parts.conventions = models.Conventions(similarity="manhattan")
    parts.check_conventions()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (cached_source, "only the decoder's outputs"),
        (compared_by_manhattan, "cosine or dot"),
        (recipe_for("tinybert"), "family of tinybert 'gpt2'"),
        (recipe_for("lightpaff", "one"), "stage 'one'"),
        (languages, "two of en, de"),
        (
            lambda: options.require_labels(
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
    monkeypatch.setattr(
        choosing, "_family_of_teacher", lambda _: ("GPT-2", "gpt2")
    )
    file = argparse.Namespace(outputs="logits")
    monkeypatch.setattr(export, "open_file", lambda *_: file)
    (tmp_path / "lines.txt").write_text("one\n\ntwo\n")
    with pytest.raises(ValueError, match=named):
        call()
