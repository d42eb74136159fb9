"""`kdkit init` writes a file that `kdkit distill` runs."""

import json
import re

import pytest
from kit.helpers import ON_TASKS, read_events

from kdkit.cli.embedders import embedder_settings
from kdkit.cli.init import Options, toml
from kdkit.cli.main import main, make_verb_parser
from kdkit.cli.resolving import distill_settings
from kdkit.cli.text_steps import text_pipeline
from kdkit.errors import UsageError
from kdkit.models import PRESETS
from kdkit.recipes import RECIPES

TEXT = "wiki.txt"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / TEXT).write_text("some words\n")
    return tmp_path


def parsed(*words):
    return make_verb_parser("distill").parse_args(list(map(str, words)))


def uncommented(text):
    """The text with every default of its tables in force."""
    first, table, tables = text.partition("\n[")
    lines = re.sub(r"^# (\w+ = )", r"\1", tables, flags=re.M)
    assert lines != tables
    return first + table + lines


def reads_no_encoder(recipe):
    """Whether a recipe neither copies an encoder nor learns from one."""
    return isinstance(recipe.student, str) and not any(
        stage.data == "corpus" and stage.objectives for stage in recipe.stages
    )


@pytest.mark.parametrize("change", [str, uncommented], ids=["as is", "whole"])
@pytest.mark.parametrize("recipe", ON_TASKS)
def test_a_file_has_the_settings_of_its_recipe(
    recipe, change, finished_run, folder
):
    encoder = str(finished_run / "teacher_run" / "teacher")
    text = change(toml(Options(recipe=recipe, task="sentiment")))
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
    assert distill_settings(parsed("my.toml")) == distill_settings(
        parsed(*words)
    )


@pytest.mark.parametrize("recipe", ["sentence_embedding", "static_embedding"])
@pytest.mark.parametrize("change", [str, uncommented], ids=["as is", "whole"])
def test_a_file_has_the_settings_of_a_sentence_encoder(
    change, recipe, finished_run, folder
):
    (folder / "captions.txt").write_text("some words\n")
    teacher = str(finished_run / "teacher_run" / "teacher")
    text = change(toml(Options(recipe=recipe)))
    text = text.replace('"all-MiniLM-L6-v2"', json.dumps(teacher))
    (folder / "my.toml").write_text(text)
    words = [recipe, "--texts", "captions.txt", "--teacher"]
    words += [teacher, "--run-dir", f"runs/{recipe}"]
    assert embedder_settings(parsed("my.toml")) == embedder_settings(
        parsed(*words)
    )


@pytest.mark.parametrize("change", [str, uncommented], ids=["as is", "whole"])
@pytest.mark.parametrize("family", ["gpt2", "llama3", "mass"])
def test_a_file_has_the_steps_of_a_family(family, change, folder):
    recipe = RECIPES["lightpaff"]
    text = toml(Options(recipe="lightpaff", model=family))
    (folder / "as_is.toml").write_text(text)
    (folder / "my.toml").write_text(change(text))
    steps = text_pipeline(recipe, parsed("my.toml")).steps
    assert steps == text_pipeline(recipe, parsed("as_is.toml")).steps
    names = [step.name for step in steps]
    assert names == ["pretrained", "teacher", "general", "student"]
    *_, general, student = (step.settings for step in steps)
    assert student.stages == recipe.for_families[family].stages[-1:]
    sizes = general.model
    student = PRESETS[recipe.for_families[family].student].config
    if family != "mass":
        assert sizes.num_layers == student.num_layers


def test_a_file_runs_and_words_overrule_it(finished_run, folder, capsys):
    words = ["vanilla_kd", "--task", "sentiment", "--output", "my.toml"]
    assert main(["init", *words]) == 0
    assert "kdkit distill my.toml" in capsys.readouterr().out
    file = folder / "my.toml"
    written = file.read_text()
    text = written.replace('"runs/teacher"', json.dumps(str(finished_run)))
    text = text.replace("# epochs = 4", "epochs = 7")
    text = text.replace("# max_train_rows (not set)", "max_train_rows = 32")
    file.write_text(text)
    assert parsed("my.toml").set[-1] == "stages.fine_tuning.epochs=7"
    words = ["my.toml", "stages.fine_tuning.epochs=1", "--run-dir", "run"]
    words += ["--max-length", "32"]
    assert main(["distill", *words]) == 0
    config = json.loads((folder / "run" / "config.json").read_text())
    assert config["data"]["max_train_rows"] == 32
    assert len(read_events(folder / "run", "epoch")) == 1
    # A run's own file is there too.
    words = ["run/config.json", "--run-dir", "run"]
    assert main(["distill", *words]) == 0
    assert "is finished" in capsys.readouterr().out


def test_no_file_is_replaced(folder, capsys):
    (folder / "my.toml").write_text("mine\n")
    assert main(["init", "pkd", "--output", "my.toml"]) == 2
    assert "my.toml already exists" in capsys.readouterr().err
    assert (folder / "my.toml").read_text() == "mine\n"


def test_a_json_file_and_layer_maps_are_read(folder):
    objective = {"layer_map": {"1": 3, "2": 6}, "weight": 2}
    config = {
        "recipe": "tinybert", "run-dir": "run", "smoke": True, "seed": 4,
        "control": False, "teacher": None, "jit_compile": False,
        "stages": {"0": {"objectives": {"hidden_state_mse": objective}}},
    }  # fmt: skip
    (folder / "my.json").write_text(json.dumps(config))
    options = parsed("my.json", "seed=5")
    assert (options.seed, options.smoke, options.control) == (4, True, False)
    settings = distill_settings(options)
    assert (settings.seed, settings.jit_compile) == (5, False)
    _, hidden = settings.stages[0].objectives
    assert (hidden.layer_map, hidden.weight) == ({1: 3, 2: 6}, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('recipe = "pkd"\nseed = 2026-01-01', "expected a seed"),
        ('recipe = "pkd"\ndevices = "two"', "invalid int value"),
        ('recipe = "pkd"\nsmoke = true\ntsk = "sst2"', "'tsk'"),
        ('recipe = "pkd"\nseed = "a"', "--seed: expected a seed"),
        (
            'recipe = "pkd"\nsmoke = true\n[stages.0]\nepoch = 1',
            "'epoch'. Expected one of: epochs, ",
        ),
    ],
)
def test_mistakes_in_a_file_are_reported(text, message, folder):
    (folder / "my.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        distill_settings(parsed("my.toml", "--run-dir", "run"))
