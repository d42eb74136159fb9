"""`kdkit init` writes a file that `kdkit distill` runs."""

import json
import re

import pytest
from kit.adapter import command, resolved
from kit.helpers import ON_TASKS, read_events

from kdkit.cli.embedders import embedder_settings
from kdkit.cli.main import make_verb_parser
from kdkit.cli.text_steps import text_pipeline
from kdkit.models import PRESETS
from kdkit.recipes import RECIPES

TEXT = "wiki.txt"
AS_IS_AND_WHOLE = pytest.mark.parametrize("is_whole", [False, True])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (TEXT, "captions.txt"):
        (tmp_path / name).write_text("some words\n")
    return tmp_path


@pytest.fixture
def encoder(finished_run):
    return str(finished_run / "teacher_run" / "teacher")


def parsed(*words):
    return make_verb_parser("distill").parse_args(list(map(str, words)))


def written(is_whole, *words):
    """What init writes, as it is or with every default of its tables."""
    assert command(["init", *words, "--output", "my.toml"]).status == 0
    with open("my.toml", encoding="utf-8") as file:
        text = file.read()
    if not is_whole:
        return text
    first, table, tables = text.partition("\n[")
    lines = re.sub(r"^# (\w+ = )", r"\1", tables, flags=re.M)
    assert lines != tables
    return first + table + lines


def reads_no_encoder(recipe):
    """Whether a recipe neither copies an encoder nor learns from one."""
    return isinstance(recipe.student, str) and not any(
        stage.data == "corpus" and stage.objectives for stage in recipe.stages
    )


@AS_IS_AND_WHOLE
@pytest.mark.parametrize("recipe", ON_TASKS)
def test_a_file_has_the_settings_of_its_recipe(
    recipe, is_whole, finished_run, encoder, folder
):
    text = written(is_whole, recipe, "--task", "sentiment")
    text = text.replace('"runs/teacher"', json.dumps(str(finished_run)))
    text = text.replace('# pretrained = "MODEL"', f'pretrained = "{encoder}"')
    words = [recipe, "--task", "sentiment", "--teacher", finished_run]
    words += ["--run-dir", f"runs/{recipe}"]
    if "corpus = [" in text.partition("\n# ")[0] or TEXT in text:
        words += ["--corpus", TEXT]
    if reads_no_encoder(RECIPES[recipe]):
        text = re.sub("^pretrained = .*$", "", text, flags=re.M)
    else:
        words += ["--pretrained", encoder]
    (folder / "my.toml").write_text(text)
    assert resolved(["distill", "my.toml"]) == resolved(["distill", *words])


@AS_IS_AND_WHOLE
@pytest.mark.parametrize("recipe", ["sentence_embedding", "static_embedding"])
def test_a_file_has_the_settings_of_a_sentence_encoder(
    is_whole, recipe, encoder, folder
):
    text = written(is_whole, recipe)
    text = text.replace('"all-MiniLM-L6-v2"', json.dumps(encoder))
    (folder / "my.toml").write_text(text)
    words = [recipe, "--texts", "captions.txt", "--teacher", encoder]
    expected = embedder_settings(parsed(*words, "--run-dir", f"runs/{recipe}"))
    assert embedder_settings(parsed("my.toml")) == expected


@pytest.mark.parametrize("family", ["gpt2", "llama3", "qwen3", "mass"])
def test_a_file_has_the_steps_of_a_family(family, folder):
    recipe = RECIPES["lightpaff"]
    text = written(True, "lightpaff", "--model", family)
    as_is = text_pipeline(recipe, parsed("my.toml")).steps
    (folder / "my.toml").write_text(text)
    assert text_pipeline(recipe, parsed("my.toml")).steps == as_is
    names = [step.name for step in as_is]
    assert names == ["pretrained", "teacher", "general", "student"]
    *_, general, student = (step.settings for step in as_is)
    assert student.stages == recipe.for_families[family].stages[-1:]
    config = PRESETS[recipe.for_families[family].student].config
    if family != "mass":
        assert general.model.num_layers == config.num_layers


def test_a_file_runs_and_words_overrule_it(finished_run, folder):
    words = ["vanilla_kd", "--task", "sentiment", "--output", "my.toml"]
    assert "kdkit distill my.toml" in command(["init", *words]).out
    file = folder / "my.toml"
    text = file.read_text()
    text = text.replace('"runs/teacher"', json.dumps(str(finished_run)))
    text = text.replace("# epochs = 4", "epochs = 7")
    text = text.replace("# max_train_rows (not set)", "max_train_rows = 32")
    file.write_text(text)
    (stage,) = resolved(["distill", "my.toml"])["stages"]
    assert stage["epochs"] == 7
    words = ["my.toml", "stages.fine_tuning.epochs=1", "--run-dir", "run"]
    assert command(["distill", *words, "--max-length", "32"]).status == 0
    config = json.loads((folder / "run" / "config.json").read_text())
    assert config["data"]["max_train_rows"] == 32
    assert len(read_events(folder / "run", "epoch")) == 1
    # A run's own file is there too.
    words = ["run/config.json", "--run-dir", "run"]
    assert "is finished" in command(["distill", *words]).out


def test_a_json_file_and_layer_maps_are_read(folder):
    objective = {"layer_map": {"1": 3, "2": 6}, "weight": 2}
    config = {
        "recipe": "tinybert", "run-dir": "run", "smoke": True, "seed": 4,
        "control": False, "teacher": None, "jit_compile": False,
        "stages": {"0": {"objectives": {"hidden_state_mse": objective}}},
    }  # fmt: skip
    (folder / "my.json").write_text(json.dumps(config))
    made = resolved(["distill", "my.json", "seed=5"])
    assert (made["seed"], made["jit_compile"]) == (5, False)
    assert made["control"] == []
    _, hidden = made["stages"][0]["objectives"]
    assert hidden["layer_map"] == {"1": 3, "2": 6}
    assert hidden["weight"] == 2
