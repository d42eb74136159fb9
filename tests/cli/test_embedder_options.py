"""Options of recipes for sentence encoders, as settings."""

import functools
import json
import shutil

import pytest
from kit.adapter import resolved
from kit.runs import VOCABULARY

from kdkit import models, recipes, training

TEXTS = ("sentence_embedding", "--texts", "@corpus.txt", "@lines.en")
ACROSS = ("multilingual", "--parallel", "@lines.en", "@lines.xx")
RANKING = ("reranker_to_embedder", "--candidates", "@candidates.tsv")
TINY = "tinybert_4_layer_en_uncased"  # 312 wide
COPY, CHECKPOINT = "student.copy_from", "student.checkpoint"
LAYERS, PIECES = "student.copy_layers", "data.vocabulary_size"


def settings_of(workspace, *words):
    return resolved(("distill", *workspace.words(words), "--run-dir", "run"))


def value_at(settings, path):
    return functools.reduce(dict.__getitem__, path.split("."), settings)


@pytest.mark.parametrize(
    ("recipe", "words", "expected"),
    [
        (TEXTS, (), {COPY: "teacher", LAYERS: [3], "data.task": None}),
        (TEXTS, ("--num-layers", "2"), {LAYERS: [1, 3]}),
        (TEXTS, ("--num-layers", "1"), {LAYERS: [3]}),
        (TEXTS, ("--layers", "2", "3"), {LAYERS: [2, 3]}),
        (TEXTS, (), {"data.files": ["@corpus.txt", "@lines.en"]}),
        (ACROSS, (), {LAYERS: [1, 2, 3], PIECES: 16_000}),
        (ACROSS, ("--num-layers", "2"), {LAYERS: [1, 3]}),
        (ACROSS, ("--layers", "2", "3"), {LAYERS: [2, 3]}),
        (ACROSS, ("--student", "@encoder"), {PIECES: None}),
        (
            ACROSS,
            ("--tokenizer", "@encoder"),
            {"data.tokenizer": "@encoder", PIECES: None},
        ),
        (RANKING, (), {COPY: "teacher", LAYERS: [3]}),
        (RANKING, ("--layers", "2", "3"), {COPY: "teacher", LAYERS: [2, 3]}),
        (
            RANKING,
            ("--student", "@encoder", "--num-layers", "2"),
            {COPY: "@encoder", LAYERS: [1, 3]},
        ),
        (
            RANKING,
            ("--student", "@encoder"),
            {COPY: None, LAYERS: [], CHECKPOINT: "@encoder"},
        ),
        (RANKING, ("--student", TINY), {COPY: None, CHECKPOINT: None}),
        (
            RANKING,
            ("--dev-candidates", "@candidates.tsv"),
            {"data.held_out": ["@candidates.tsv"]},
        ),
    ],
)
def test_options_are_settings(recipe, words, expected, workspace):
    teacher = ("--teacher", "@teacher" if recipe is RANKING else "@encoder")
    settings = settings_of(workspace, *recipe, *teacher, *words)
    for path, value in expected.items():
        values = value if isinstance(value, list) else [value]
        found = value_at(settings, path)
        found = found if isinstance(value, list) else [found]
        assert found == [
            workspace.words([one])[0] if isinstance(one, str) else one
            for one in values
        ]
    (objective, *_) = settings["stages"][0]["objectives"]
    expected = recipes.RECIPES[recipe[0]].stages[0].objectives[0].name
    assert objective["name"] == expected


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
        settings = settings_of(workspace, *TEXTS, *place)
        (objective,) = settings["stages"][0]["objectives"]
        assert objective["name"] == objective["loss"]["name"] == name


def test_layers_of_a_transformer_in_a_folder_of_its_own(workspace, tmp_path):
    loaded = models.load_embedder(workspace.path / "encoder", "cls")
    models.save_sentence_transformer(
        loaded.model, as_transformers_splits(), tmp_path, sequence_length=8
    )
    folder = tmp_path / "0_Transformer"
    folder.mkdir()
    for file in [*tmp_path.iterdir()]:
        if file.is_file() and file.name != "modules.json":
            shutil.move(file, folder)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[0]["path"] = folder.name
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    teacher = ("--teacher", tmp_path, "--num-layers", "2")
    settings = settings_of(workspace, *TEXTS, *teacher)
    assert value_at(settings, LAYERS) == [1, 3]


def test_a_config_is_repeated(workspace, tmp_path):
    words = (*TEXTS, "--teacher", "@encoder", "--num-layers", "2")
    settings = settings_of(workspace, *words)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(settings))
    again = settings_of(workspace, "--config", file, "--seed", "3")
    assert again == {**settings, "seed": 3}
    with pytest.raises(ValueError, match="holds a run of recipe"):
        settings_of(workspace, "tinybert", "--config", file)


def test_languages_without_different_names_are_numbered(workspace):
    files = workspace.words(["@lines.en", "@encoder/../lines.en"])
    found = training.TranslationsSettings(tuple(files), vocabulary_size=9)
    assert found.languages == ("1", "2")
