"""Options of all verbs: help pages, fields anywhere, short flags."""

import pathlib

import pytest
from kit.adapter import command, resolved

SMOKE = ["--smoke", "--run-dir", "run"]
VERBS = (
    "list", "show", "demo", "init", "train-teacher", "pretrain", "augment",
    "cache", "distill", "doctor", "sweep", "ablate", "evaluate", "export",
    "benchmark", "push", "generate", "report",
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_help_all_has_every_option(verb):
    page = command([verb, "--help-all"])
    assert page.status == 0
    shown = {line.split()[0] for line in page.out.splitlines() if line.strip()}
    told = command([verb, "--nonsense"]).err
    options = told.partition("Expected one of: ")[2].rstrip(".\n").split(", ")
    assert set(filter(None, options)) <= shown


def test_fields_are_set_anywhere_after_the_verb():
    words = ["stages.0.epochs=2", "pkd", "seed=3", "--set"]
    words += ["stages.0.batch_size=4", *SMOKE, "jit_compile=false"]
    config = resolved(["distill", *words])
    (stage,) = config["stages"]
    assert (stage["epochs"], stage["batch_size"]) == (2, 4)
    assert (config["seed"], config["jit_compile"]) == (3, False)
    assert config["recipe"] == "pkd"


def test_files_with_an_equals_sign_are_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b").touch()
    words = ["--corpus", "c.txt", "a=b", "seed=5", "--run-dir", "run"]
    words += ["--student", "lightpaff_gpt2_4_layer_en"]
    config = resolved(["pretrain", "--vocabulary-size", "300", *words])
    files = [pathlib.Path(file).name for file in config["corpus"]["files"]]
    assert files == ["c.txt", "a=b"]
    assert config["seed"] == 5


@pytest.mark.parametrize(
    "verb", [["train-teacher"], ["pretrain"], ["distill", "pkd"]]
)
def test_short_flags_are_of_the_only_stage(verb):
    words = ["--epochs", "3", "--batch-size", "4", "--learning-rate", "0.1"]
    config = resolved([*verb, *words, "--max-length", "16", *SMOKE])
    (stage,) = config["stages"]
    found = [stage[n] for n in ("epochs", "batch_size", "learning_rate")]
    assert found == [3, 4, 0.1]
    text = config["corpus" if verb == ["pretrain"] else "data"]
    assert text["sequence_length"] == 16
    field = f"stages.{stage['name']}.epochs=5"
    (stage,) = resolved([*verb, *words, field, *SMOKE])["stages"]
    assert stage["epochs"] == 5
