"""The settings that command lines come to, of every verb and recipe."""

import json

import pytest
from kit import adapter
from kit import goldens as comparing_goldens
from kit.run_checks import check_config
from kit.runs import ON_TASK, PLAIN

import kdkit

RECIPES = (
    "tinybert", "pkd", "vanilla_kd", "distilbert", "distilled_bilstm",
    "fine_tuning", "bert_small", "lightpaff",
)  # fmt: skip
ON_RACE = ("--task", "race")
PARITIES = (
    ("tinybert", "paper"), ("tinybert", "tinybert"), ("pkd", "pkd"),
)  # fmt: skip
SHOWN = {
    **{name: (name,) for name in RECIPES},
    **{
        f"tinybert {task}": ("tinybert", "--task", task)
        for task in ("cola", "mnli", "stsb", "race", "polyphone")
    },
    "pkd race": ("pkd", *ON_RACE),
    "fine_tuning race": ("fine_tuning", *ON_RACE),
    **{
        f"{name} as {parity}": (name, "--parity", parity)
        for name, parity in PARITIES
    },
}
TEACHER = ("--teacher", "@teacher")
TEXT = ("--corpus", "@corpus.txt")
PRETRAINED = ("--pretrained", "@encoder")
ENCODER = ("--encoder", "@encoder")
# What a recipe needs beside the task and a teacher.
MORE = {
    "distilbert": (*TEXT, *PRETRAINED),
    "bert_small": TEXT,
    "lightpaff": (*TEXT, *PRETRAINED),
}
RESOLVED = {
    **{f"smoke {name}": ("distill", name, "--smoke") for name in RECIPES},
    **{
        name: ("distill", name, *ON_TASK, *TEACHER, *MORE.get(name, ()))
        for name in RECIPES
    },
    **{
        f"smoke {name} as {parity}": (
            *("distill", name, "--smoke", "--parity", parity),
        )
        for name, parity in PARITIES
    },
    "control": ("distill", "pkd", *ON_TASK, *TEACHER, "--control"),
    "encoder": ("distill", "vanilla_kd", *ON_TASK, *ENCODER),
    "two teachers": (
        *("distill", "vanilla_kd", *ON_TASK, *TEACHER, "@teacher"),
        *("--teacher-weights", "2", "1", "--num-layers", "2", "--seed", "5"),
    ),
    "one stage": (
        *("distill", "tinybert", *ON_TASK, *TEACHER),
        *("--stages", "prediction_layer"),
    ),
    "bfloat16 on two devices": (
        *("distill", "pkd", "--smoke", "--mixed-precision", "bfloat16"),
        *("--strategy", "mirrored", "--devices", "2"),
    ),
    "smoke teacher": ("train-teacher", "--smoke"),
    "teacher": ("train-teacher", *ON_TASK, "--model", "@encoder"),
    "smoke text": ("pretrain", "--smoke"),
    "text": ("pretrain", *TEXT, "--model", "@encoder"),
    "general distillation": (
        *("pretrain", "--recipe", "tinybert", *TEXT),
        *("--teacher", "@encoder", *PLAIN),
    ),
    "decoder": (
        *("pretrain", *TEXT, "--student", "lightpaff_gpt2_4_layer_en"),
        *("--vocabulary-size", "300"),
    ),
    "spans": (
        *("pretrain", "--corpus", "@corpus.txt", "@corpus.txt"),
        *("--languages", "en", "de", "--vocabulary-size", "400"),
        *("--student", "lightpaff_mass_6_4_layer"),
    ),
    "pairs": (
        *("pretrain", "--pairs", "@corpus.txt", "@corpus.txt"),
        *("--languages", "en", "de", "--vocabulary-size", "400"),
        *("--student", "lightpaff_mass_6_4_layer"),
    ),
}


def test_recipes_have_their_names():
    names = set(RECIPES) & set(kdkit.recipes.RECIPES)  # new ones have no golden
    comparing_goldens.check("configs", "recipes", sorted(names))


@pytest.mark.parametrize("name", SHOWN)
def test_shown_stages_are_the_golden_ones(name):
    answer = adapter.command(("show", *SHOWN[name]))
    assert answer.status == 0
    stages = list(stages_in(answer.out))
    assert stages
    comparing_goldens.check_keys(
        "configs", f"show {name}", {"stages": stages}, "config"
    )


def stages_in(text):
    """The JSON objects in what `kdkit show` prints."""
    decoder, place = json.JSONDecoder(), text.find("\n{")
    while place >= 0:
        stage, length = decoder.raw_decode(text[place + 1 :])
        yield stage
        place = text.find("\n{", place + 1 + length)


@pytest.mark.parametrize("name", RESOLVED)
def test_resolved_settings_are_the_golden_ones(name, workspace):
    words = [*RESOLVED[name], "--run-dir", workspace.path / "no_run"]
    config = adapter.resolved(workspace.words(words))
    check_config(workspace, name, config)
    assert not (workspace.path / "no_run").exists()
