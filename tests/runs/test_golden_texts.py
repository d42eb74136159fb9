"""Runs on text alone, next tokens, spans and pairs, and their files."""

import pytest
from kit import adapter
from kit import goldens as comparing_goldens
from kit.run_checks import (
    PRECISIONS,
    check_config,
    check_run,
    file_of,
    read_config,
)
from kit.runs import RUNS

NAMES = [name for name, run in RUNS.items() if run.kind == "text"]
TOKENS = [3, 17, 42, 8, 61]
SOURCE = [9, 30, 21, 5]  # of encoder-decoders


@pytest.mark.parametrize("name", NAMES)
def test_a_run_on_text_has_the_golden_numbers(name, workspace):
    check_run(workspace, name)


@pytest.mark.parametrize("name", NAMES)
def test_settings_of_steps_on_text_are_the_golden_ones(name, workspace):
    run = workspace.make(name)
    for part in RUNS[name].models:
        check_config(workspace, f"run {name}/{part}", read_config(run / part))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", NAMES)
def test_files_of_text_models_give_the_golden_logits(
    name, precision, workspace
):
    workspace.make(name)
    more = ("--sequence-length", "8", "--precision", *PRECISIONS)
    file = file_of(workspace.exported(name, *more), precision)
    source = SOURCE if name == "spans_and_pairs" else None
    logits = adapter.token_logits(file, source, TOKENS)
    comparing_goldens.check(
        "exports", f"{name} {precision}", comparing_goldens.summary(logits)
    )


@pytest.mark.parametrize("name", NAMES)
def test_generated_text_is_the_golden_one(name, workspace):
    workspace.make(name)
    prompt = ("--prompt", "the film", "--max-tokens", "8")
    words = ("generate", f"@{name}", *prompt)
    comparing_goldens.check("verbs", name, workspace.run(*words))
