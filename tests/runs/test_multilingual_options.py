"""Options of `kdkit distill multilingual`, as settings and mistakes."""

import pytest
from encoders import tokenizer
from test_embedder_options import problems_of, settings_of

from kdkit import models
from kdkit.cli.main import main
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
    (tmp_path / "short.de").write_text("eins\n")
    (tmp_path / "empty.de").write_text("\n\n")
    (tmp_path / "pieces.txt").write_text("[PAD]\n")
    (tmp_path / "teacher").symlink_to(teacher)
    return tmp_path


NEW = ["multilingual", "--parallel", "train.en", "train.de", "--teacher",
       "teacher", "--run-dir", "run"]  # fmt: skip


def test_options_are_settings(place):
    settings = settings_of(
        *NEW, "--dev-parallel", "val.en", "val.de", "--vocabulary-size", "90",
        "--max-length", "20", "--parity", "mse",
    )  # fmt: skip
    data = settings.data
    assert data.files == tuple(
        str(place / name) for name in ("train.en", "train.de")
    )
    assert data.held_out[1] == str(place / "val.de")
    assert (data.vocabulary_size, data.tokenizer) == (90, None)
    assert (data.sequence_length, data.languages) == (20, ("en", "de"))
    (stage,) = settings.stages
    assert stage.objectives[0].name == "hidden_state_mse"
    assert stage.data == "translations"


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


def test_a_wider_student_learns_similarities(place):
    (stage,) = settings_of(
        *NEW, "--student", "tinybert_4_layer_en_uncased"
    ).stages
    assert [one.name for one in stage.objectives] == [
        "similarity_kl_divergence"
    ]


def test_languages_without_different_names_are_numbered(place):
    words = [*NEW[:2], "train.en", "val.en", *NEW[4:]]
    assert settings_of(*words).data.languages == ("1", "2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["multilingual", "--run-dir", "run"], "Missing: --parallel, --te"),
        ([*NEW, "--texts", "train.en"],
         "--texts is not for multilingual. Expected --parallel and --teacher. "
         "Remove it, or use the recipe sentence_embedding or static_embedding"),
        ([*NEW, "--tokenizer", "a.txt", "--vocabulary-size", "9"], "both"),
        ([*NEW, "--dev-parallel", "val.en"], "at least two"),
        ([*NEW, "--parity", "layers"], "no parity"),
        (["sentence_embedding", "--texts", "train.en", "--teacher", "teacher",
          "--run-dir", "run", "--vocabulary-size", "9"],
         "--vocabulary-size is not for sentence_embedding"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(words, message, place):
    assert message in problems_of(*words)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["train.en", "short.de"], "add the missing lines"),
        (["train.en", "missing.de"], "missing.de"),
        (
            ["train.en", "train.de", "--tokenizer", "val.en"],
            "val.en is not a tokenizer. Expected word pieces",
        ),
        (["train.en", "train.de"], "fewer word pieces"),
    ],
)
def test_wrong_files_are_refused(files, message, place, capsys):
    words = [*NEW[:2], *files, *NEW[4:-1], "runs/new"]
    assert main(["distill", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (place / "runs").exists()


def test_the_page_of_options_is_that_of_sentence_encoders(capsys):
    assert main(["distill", "multilingual", "--help"]) == 0
    page = capsys.readouterr().out
    assert "--parallel" in page
    assert "--vocabulary-size" in page
