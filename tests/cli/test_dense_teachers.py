"""The config of a sentence encoder whose teacher has dense layers."""

import pytest
from kit.runs import VOCABULARY

from kdkit import models
from kdkit.cli.runs import asked_by

TEXTS = ("sentence_embedding", "--texts", "@corpus.txt")
TINY = "tinybert_4_layer_en_uncased"  # 312 wide


def made(*words):
    """The config that a command line runs."""
    verb, *words = map(str, words)
    return asked_by(verb, [*words, "--run-dir", "run"]).config()


def as_transformers_splits():
    return models.word_piece_tokenizer(VOCABULARY, lowercase=True)


@pytest.mark.parametrize("width", [312, 400])  # as wide as a student, and wider
def test_the_losses_fit_a_students_width(width, workspace, tmp_path):
    """Dense layers decide how wide a teacher's vectors are."""
    pooling = models.Pooling("mean", dense=[models.DenseSettings(width)])
    loaded = models.load_embedder(workspace.path / "encoder", pooling)
    teacher = (loaded.model, as_transformers_splits())
    models.save_embedder(*teacher, tmp_path / "own", sequence_length=8)
    models.save_sentence_transformer(
        *teacher, tmp_path / "st", sequence_length=8
    )
    names = {place: "hidden_state_cosine" for place in ("own", "st")} | {
        workspace.path / "encoder": "similarity_kl_divergence"
    }
    for place, name in names.items():
        place = ("--teacher", str(tmp_path / place), "--student", TINY)
        words = ("distill", *workspace.words(TEXTS), *place)
        (objective,) = made(*words).objectives
        assert objective.name == objective.loss.name == name
