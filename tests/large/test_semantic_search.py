"""The examples of semantic search find the same texts in every format."""

import runpy
import sys

import keras
import pytest
from kit.helpers import ROOT

from kdkit import data, export, models

CAPTIONS = ("a fine film", "a dull story", "the acting is great")
LENGTH = 32
SIZES = {
    "num_layers": 1,
    "hidden_dim": 16,
    "num_heads": 2,
    "intermediate_dim": 32,
    "max_sequence_length": LENGTH,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with captions, an embedder and its exported files."""
    folder = tmp_path_factory.mktemp("search")
    (folder / "captions.txt").write_text("\n".join(CAPTIONS) + "\n")
    words = data.sentiment_vocabulary()
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = models.load_tokenizer(folder / "vocab.txt")
    keras.utils.set_random_seed(0)
    model = models.make_embedder(
        models.student(SIZES, vocabulary_size=tokenizer.vocabulary_size())
    )
    models.save_embedder(model, tokenizer, folder / "student", LENGTH)
    models.save_sentence_transformer(
        model, tokenizer, folder / "exported", sequence_length=LENGTH
    )
    export.to_litert(model, folder / "student.tflite", sequence_length=LENGTH)
    return folder


@pytest.mark.parametrize(
    ("script", "files"),
    [
        ("semantic_search", ["student"]),
        (
            "semantic_search_exported",
            ["student.tflite", "exported/tokenizer.json"],
        ),
    ],
)
def test_a_text_is_found_by_itself(script, files, place, monkeypatch, capsys):
    paths = [str(place / name) for name in (*files, "captions.txt")]
    monkeypatch.setattr(sys, "argv", [script, *paths, *CAPTIONS[:2]])
    runpy.run_path(str(ROOT / "examples" / f"{script}.py"))
    lines = capsys.readouterr().out.splitlines()
    for query, nearest in ((0, 1), (len(CAPTIONS) + 1, len(CAPTIONS) + 2)):
        cosine, text = lines[nearest].strip().split(" ", 1)
        assert text == lines[query]
        assert float(cosine) == pytest.approx(1, abs=1e-3)
