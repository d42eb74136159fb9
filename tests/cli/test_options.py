"""Options of all verbs: help pages, overrides, short flags, mistakes."""

import pathlib

import pytest

from kdkit.cli.main import VERBS, main, make_verb_parser
from kdkit.cli.options import for_steps
from kdkit.cli.resolving import (
    distill_settings,
    pretrain_settings,
    teacher_settings,
)
from kdkit.errors import UsageError

SMOKE = ["--smoke", "--run-dir", "run"]


def parsed(verb, *words):
    return make_verb_parser(verb).parse_args([*words])


@pytest.mark.parametrize("verb", VERBS)
def test_help_all_has_every_option(verb, capsys):
    assert main([verb, "--help-all"]) == 0
    page = capsys.readouterr().out
    shown = {line.split()[0] for line in page.splitlines() if line.strip()}
    labels = {one.label for one in make_verb_parser(verb).options.values()}
    assert labels <= shown


def test_fields_are_set_anywhere_after_the_verb():
    words = ["stages.0.epochs=2", "tinybert", "--teacher", "a", "b", "seed=3"]
    words += ["--set", "stages.0.batch_size=4", "--run-dir", "run"]
    options = parsed("distill", *words, "jit_compile=false")
    assert options.teacher == ["a", "b"]
    assert options.recipe == "tinybert"
    assert options.set == [
        "stages.0.epochs=2", "seed=3", "stages.0.batch_size=4",
        "jit_compile=false",
    ]  # fmt: skip
    assert parsed("sweep", "pkd", "--over", "seed=1,2", *SMOKE).set == []
    assert parsed("generate", "m", "--prompt", "a=b").prompt == "a=b"


def test_files_with_an_equals_sign_are_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("a=b").touch()
    words = ["--corpus", "c.txt", "a=b", "d=e", *SMOKE]
    options = parsed("pretrain", *words)
    assert options.corpus == ["c.txt", "a=b"]
    assert options.set == ["d=e"]


def test_short_flags_are_of_the_only_stage():
    words = ["--epochs", "3", "--batch-size", "4", "--learning-rate", "0.1"]
    for verb, settings_of, words_of_verb in (
        ("train-teacher", teacher_settings, []),
        ("pretrain", pretrain_settings, []),
        ("distill", distill_settings, ["pkd"]),
    ):
        settings = settings_of(
            parsed(verb, *words_of_verb, *words, "--max-length", "16", *SMOKE)
        )
        (stage,) = settings.stages
        assert stage.epochs == 3
        assert (stage.batch_size, stage.learning_rate) == (4, 0.1)
        text = settings.corpus if verb == "pretrain" else settings.data
        assert text.sequence_length == 16
    given = [*words, "stages.fine_tuning.epochs=5", "pkd", *SMOKE]
    assert distill_settings(parsed("distill", *given)).stages[0].epochs == 5
    words = ["lightpaff", "--model", "mass", *SMOKE, "--max-length", "20"]
    steps = for_steps(parsed("distill", *words))
    assert steps.set == ["corpus.sequence_length=20"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epoch"], "--epochs: expected a value"),
        (["--t", "a"], "Unknown option '--t'. Expected one of: --t"),
        (["--smoke=yes"], "--smoke: expected no value"),
        (["--teachr", "a"], "Unknown option '--teachr'.*one of: --teacher, "),
        (["--epochs", "many"], "--epochs: invalid int value: 'many'"),
        (["--cache-precision", "int9"], "one of: int8, "),
        (["pkd", "vanilla_kd"], "Unexpected: vanilla_kd"),
        (["--teacher"], "--teacher: expected at least one value"),
    ],
)
def test_words_that_mean_nothing_are_refused(words, message):
    with pytest.raises(UsageError, match=message):
        parsed("distill", "--run-dir", "run", *words)
