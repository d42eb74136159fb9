"""The losses of a sentence encoder whose vectors have another width."""

import pytest
from kit.runs import VOCABULARY

from kdkit import models
from kdkit.runs.build import build, resolved
from kdkit.runs.configure import config_of

TINY = "tinybert_4_layer_en_uncased"  # 312 wide
COSINE, SIMILARITY = "hidden_state_cosine", "similarity_kl_divergence"


def as_transformers_splits():
    return models.word_piece_tokenizer(VOCABULARY, lowercase=True)


def built(workspace, teacher, folder):
    """The config as asked for, and as it is built."""
    tree = {
        "teacher": str(teacher),
        "pooling": "mean",
        "student": {"checkpoint": TINY},
        "data": {"files": [], "sequence_length": 8},
    }
    config = config_of("sentence_embedding", tree)
    return config, build(config, folder).config


@pytest.mark.parametrize("width", [312, 400])  # as wide as a student, and wider
def test_dense_layers_decide_the_width(width, workspace, tmp_path):
    pooling = models.Pooling("mean", dense=[models.DenseSettings(width)])
    loaded = models.load_embedder(workspace.path / "encoder", pooling)
    teacher = (loaded.model, as_transformers_splits())
    models.save_embedder(*teacher, tmp_path / "own", sequence_length=8)
    models.save_sentence_transformer(
        *teacher, tmp_path / "st", sequence_length=8
    )
    for place in ("own", "st"):
        _, config = built(workspace, tmp_path / place, tmp_path)
        (objective,) = config.objectives
        assert objective.name == objective.loss.name == COSINE


def test_a_wider_student_learns_similarities(workspace, tmp_path):
    """And config.json has the loss."""
    asked, config = built(workspace, workspace.path / "encoder", tmp_path)
    (objective,) = config.objectives
    assert objective.name == objective.loss.name == SIMILARITY
    (before, after) = resolved(asked, config)["stages.distillation.objectives"]
    assert (list(before), list(after)) == ([COSINE], [SIMILARITY])
