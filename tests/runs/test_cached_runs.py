"""Runs that read cached teacher outputs: equal numbers without a teacher."""

import dataclasses
import json

import pytest
from kit.helpers import read_events

from kdkit.cli.main import main
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.settings import override
from kdkit.training import CacheSettings, distill, fill_cache

ROWS = 48


@pytest.fixture(scope="module")
def settings(finished_run):
    made = smoke.distillation(RECIPES["tinybert"])
    return dataclasses.replace(
        override(made, [f"data.max_train_rows={ROWS}"]),
        teacher=str(finished_run / "teacher_run"),
        more_teachers=(str(finished_run / "teacher_run"),),
        teacher_weights=(3.0, 1.0),
    )


@pytest.fixture(scope="module")
def runs(settings, tmp_path_factory):
    """The same run without and with a cache."""
    folder = tmp_path_factory.mktemp("cached")
    distill(settings, folder / "plain")
    cached = dataclasses.replace(
        settings, cache=CacheSettings(str(folder / "cache"))
    )
    distill(cached, folder / "cached")
    return folder


def test_losses_are_those_with_the_teacher_run(runs):
    plain, cached = (
        read_events(runs / name, "epoch") for name in ("plain", "cached")
    )
    assert len(plain) == len(cached) == 2
    for one, other in zip(plain, cached, strict=True):
        assert set(one["logs"]) == set(other["logs"])
        for name, value in one["logs"].items():
            assert other["logs"][name] == pytest.approx(value, rel=2e-3)


def test_errors_of_what_was_kept_are_logged(runs):
    (event,) = read_events(runs / "cached", "teacher_cache")
    assert event["precision"] == "fp32"
    first, second = event["relative_errors"]
    assert set(first) == set(second)
    assert {"logits", "attention_logits/3", "hidden_states/0"} <= set(first)
    assert set(first.values()) == {0.0}


@pytest.mark.large
def test_another_seed_finds_the_outputs(settings, runs, logged):
    again = dataclasses.replace(
        settings, seed=1, cache=CacheSettings(str(runs / "cache"))
    )
    # Another seed draws other rows; of those that are there none is run.
    fill_cache(again)
    lines = logged()
    # Once for both stages.
    assert lines.count("teacher_1: running the teacher on") == 1
    fill_cache(again)
    lines = logged()
    assert "running the teacher on" not in lines
    assert f"outputs for all {ROWS} examples are cached" in lines


def test_another_teacher_is_refused_before_a_run_begins(
    settings, finished_run, runs, tmp_path
):
    other = dataclasses.replace(
        settings,
        more_teachers=(str(finished_run / "student"),),
        cache=CacheSettings(str(runs / "cache")),
    )
    with pytest.raises(UsageError, match="contains other outputs: .*teacher"):
        fill_cache(other)
    with pytest.raises(UsageError, match="contains other outputs: .*teacher"):
        distill(other, tmp_path / "run", force=True)
    assert not (tmp_path / "run").exists()


def filling(run):
    """The command that fills a cache, but for its place."""
    return [
        "cache", "vanilla_kd", "--task", "sentiment",
        "--teacher", str(run / "teacher_run"),
        "--student", str(run / "student"),
        "--set", f"data.max_train_rows={ROWS}",
        "--set", "data.sequence_length=32",
    ]  # fmt: skip


def test_verb_fills_a_cache_and_tells_errors(finished_run, tmp_path, capsys):
    command = filling(finished_run)
    assert main(command) == 2
    assert "Missing: --cache" in capsys.readouterr().err
    command += ["--cache", str(tmp_path / "cache")]
    assert main([*command, "--cache-precision", "int8"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    ((name, error),) = answer["relative_errors"][0].items()
    assert name == "logits"
    assert 0 < error < 0.01
