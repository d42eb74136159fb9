"""Options of recipes for sentence encoders, as settings and mistakes."""

import json
import pathlib

import pytest

from kdkit import data, models
from kdkit.cli.distill import distillation_pipeline
from kdkit.cli.main import make_verb_parser
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.runs import embedder_parts
from kdkit.settings import to_dict
from kdkit.training.translation_settings import VOCABULARY_SIZE


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """An encoder without a description of its pooling."""
    path = tmp_path_factory.mktemp("teacher") / "teacher"
    tokenizer = models.word_piece_tokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )
    backbone = models.student(
        {"num_layers": 6, "hidden_dim": 8, "num_heads": 2,
         "intermediate_dim": 8},
        vocabulary_size=tokenizer.vocabulary_size(),
    )  # fmt: skip
    models.save_encoder(backbone, tokenizer, path)
    return path


@pytest.fixture
def place(encoder, tmp_path, monkeypatch):
    """The working directory: texts, and the encoder as teacher."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("the plot is thin\n")
    (tmp_path / "teacher").symlink_to(encoder)
    return tmp_path


NEW = ["sentence_embedding", "--texts", "a.txt", "b.txt", "--teacher",
       "teacher", "--run-dir", "run"]  # fmt: skip


RANKING = ["reranker_to_embedder", "--candidates", "c.tsv", "--teacher",
           "classifier", "--run-dir", "run"]  # fmt: skip


@pytest.fixture
def classifier(encoder, place):
    """The files of a cross-encoder with one score, and its candidates."""
    (place / "c.tsv").write_text("query\tpositive\tnegative\na\tb\tc\n")
    (place / "classifier").mkdir()
    for file in ("config.json", "model.weights.h5"):
        (place / "classifier" / file).symlink_to(encoder / file)
    (place / "classifier" / "task.json").write_text(
        '{"class_name": "BertTextClassifier", "config": {"num_classes": 1}}'
    )
    return place


def settings_of(*words):
    options = make_verb_parser("distill").parse_args([*words])
    return distillation_pipeline(options).settings


@pytest.mark.parametrize(
    ("words", "layers"),
    [
        ([], (1, 3, 6)),
        (["--num-layers", "3"], (1, 3, 6)),
        (["--num-layers", "2"], (1, 6)),
        (["--num-layers", "1"], (6,)),
        (["--layers", "2", "5"], (2, 5)),
    ],
)
def test_layers_of_the_teacher(words, layers, place):
    settings = settings_of(*NEW, *words)
    assert settings.student.copy_from == "teacher"
    assert settings.student.copy_layers == layers
    assert settings.stages == RECIPES["sentence_embedding"].stages
    assert settings.data.files == tuple(
        str(place / name) for name in ("a.txt", "b.txt")
    )
    assert settings.data.task is None


def test_a_wider_student_learns_similarities(place):
    settings = settings_of(*NEW, "--student", "tinybert_4_layer_en_uncased")
    (objective,) = settings.stages[0].objectives
    assert objective.loss.name == objective.name == "similarity_kl_divergence"
    assert settings.student.hidden_dim == 312


@pytest.mark.parametrize("width", [312, 400])  # as wide, and wider
def test_dense_layers_decide_the_width_of_a_teachers_vectors(
    width, encoder, place
):
    pooling = models.Pooling(dense=[models.DenseSettings(width)])
    loaded = models.load_embedder(encoder, pooling)
    wide = (loaded.model, loaded.tokenizer)
    models.save_embedder(*wide, place / "wide", sequence_length=8)
    models.save_sentence_transformer(*wide, place / "st", sequence_length=8)
    for teacher in ("wide", "st"):
        words = [teacher if one == "teacher" else one for one in NEW]
        words += ["--student", "tinybert_4_layer_en_uncased"]
        (objective,) = settings_of(*words).stages[0].objectives
        assert objective.loss.name == "hidden_state_cosine"


def test_an_encoder_as_student_has_the_teachers_pooling(encoder, place):
    pooling = models.Pooling("cls", normalize=False)
    settings = settings_of(*NEW, "--student", str(encoder))
    teacher = models.load_embedder(encoder, pooling)
    student = embedder_parts.make_student(settings, teacher)
    assert models.pooling_of(student) == pooling


def test_layers_of_a_transformer_in_a_folder_of_its_own(encoder, place):
    loaded = models.load_embedder(encoder, models.Pooling("cls"))
    models.save_sentence_transformer(
        loaded.model, loaded.tokenizer, place / "cls", sequence_length=8
    )
    folder = place / "cls" / "0_Transformer"
    folder.mkdir()
    for file in filter(pathlib.Path.is_file, [*(place / "cls").iterdir()]):
        if file.name != "modules.json":
            file.rename(folder / file.name)
    modules = json.loads((place / "cls" / "modules.json").read_text())
    modules[0]["path"] = folder.name
    (place / "cls" / "modules.json").write_text(json.dumps(modules))
    words = ["cls" if one == "teacher" else one for one in NEW]
    assert settings_of(*words).student.copy_layers == (1, 3, 6)


def test_a_config_is_repeated(place):
    settings = settings_of(*NEW, "--num-layers", "2")
    (place / "config.json").write_text(json.dumps(to_dict(settings)))
    words = ["--config", "config.json", "--run-dir", "other", "--seed", "3"]
    again = settings_of(*words)
    assert again.student == settings.student
    assert again.seed == 3
    with pytest.raises(UsageError, match="holds a run of recipe"):
        settings_of("tinybert", *words)


@pytest.mark.parametrize(
    ("words", "source", "layers"),
    [
        ([], "teacher", (1, 3, 6)),
        (["--layers", "2", "5"], "teacher", (2, 5)),
        (["--student", "teacher", "--num-layers", "2"], "TEACHER", (1, 6)),
        (["--student", "teacher"], None, ()),
        (["--student", "tinybert_4_layer_en_uncased"], None, ()),
    ],
)
def test_students_of_a_cross_encoder(words, source, layers, classifier):
    settings = settings_of(*RANKING, *words, "--dev-candidates", "c.tsv")
    place = str((classifier / "teacher").resolve())
    expected = place if source == "TEACHER" else source
    assert settings.student.copy_from == expected
    assert settings.student.copy_layers == layers
    assert settings.data.files == settings.data.held_out
    assert settings.stages == RECIPES["reranker_to_embedder"].stages
    if words == ["--student", "teacher"]:
        assert settings.student.checkpoint == place


ACROSS = ["multilingual", "--parallel", "train.en", "train.de", "--teacher",
          "teacher", "--run-dir", "run"]  # fmt: skip


@pytest.fixture
def parallel(place):
    """The working directory, with files of translations."""
    for name in ("train.en", "train.de", "val.en"):
        (place / name).write_text(f"{name} one\n{name} two\n")
    return place


@pytest.mark.parametrize(
    ("words", "layers"),
    [
        ([], (1, 2, 3, 4, 5, 6)),
        (["--num-layers", "3"], (1, 3, 6)),
        (["--layers", "2", "5"], (2, 5)),
    ],
)
def test_a_multilingual_student_has_all_layers_by_default(
    words, layers, parallel
):
    settings = settings_of(*ACROSS, *words)
    assert settings.student.copy_layers == layers
    assert settings.data.vocabulary_size == VOCABULARY_SIZE
    assert settings.stages == RECIPES["multilingual"].stages


def test_a_checkpoint_has_its_own_vocabulary(parallel):
    settings = settings_of(*ACROSS, "--student", "teacher")
    assert settings.data.vocabulary_size is None
    settings = settings_of(*ACROSS, "--tokenizer", "teacher")
    assert settings.data.vocabulary_size is None
    assert settings.data.tokenizer == str((parallel / "teacher").resolve())


def test_languages_without_different_names_are_numbered(parallel):
    words = [*ACROSS[:2], "train.en", "val.en", *ACROSS[4:]]
    assert settings_of(*words).data.languages == ("1", "2")
