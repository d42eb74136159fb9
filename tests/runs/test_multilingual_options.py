"""Options of `kdkit distill multilingual`, as settings and mistakes."""

import pytest
from encoders import tokenizer
from test_embedder_options import settings_of

from kdkit import models
from kdkit.recipes import RECIPES
from kdkit.training.translation_settings import VOCABULARY_SIZE


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A tiny sentence encoder with six layers."""
    path = tmp_path_factory.mktemp("teacher") / "teacher"
    read = tokenizer("bert")
    backbone = models.student(
        {"num_layers": 6, "hidden_dim": 8, "num_heads": 2,
         "intermediate_dim": 8},
        vocabulary_size=read.vocabulary_size(),
    )  # fmt: skip
    model = models.make_embedder(backbone)
    models.save_embedder(model, read, path, sequence_length=16)
    return path


@pytest.fixture
def place(teacher, tmp_path, monkeypatch):
    """The working directory, with files of translations and the teacher."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.en", "train.de", "val.en", "val.de"):
        (tmp_path / name).write_text(f"{name} one\n{name} two\n")
    (tmp_path / "teacher").symlink_to(teacher)
    return tmp_path


NEW = ["multilingual", "--parallel", "train.en", "train.de", "--teacher",
       "teacher", "--run-dir", "run"]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "layers"),
    [
        ([], (1, 2, 3, 4, 5, 6)),
        (["--num-layers", "3"], (1, 3, 6)),
        (["--layers", "2", "5"], (2, 5)),
    ],
)
def test_the_student_has_all_layers_by_default(words, layers, place):
    settings = settings_of(*NEW, *words)
    assert settings.student.copy_layers == layers
    assert settings.data.vocabulary_size == VOCABULARY_SIZE
    assert settings.stages == RECIPES["multilingual"].stages


def test_a_checkpoint_has_its_own_vocabulary(place):
    settings = settings_of(*NEW, "--student", "teacher")
    assert settings.data.vocabulary_size is None
    settings = settings_of(*NEW, "--tokenizer", "teacher")
    assert settings.data.vocabulary_size is None
    assert settings.data.tokenizer == str((place / "teacher").resolve())


def test_languages_without_different_names_are_numbered(place):
    words = [*NEW[:2], "train.en", "val.en", *NEW[4:]]
    assert settings_of(*words).data.languages == ("1", "2")
