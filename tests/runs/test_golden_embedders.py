"""Runs that leave a sentence encoder, its file and what it is measured on."""

import json

import pytest
from kit import goldens as comparing_goldens
from kit.run_checks import (
    check_config,
    check_run,
    file_of,
    fixed_batch,
    read_config,
)
from kit.runs import PAIRS, RUNS

from kdkit import export

NAMES = [name for name, run in RUNS.items() if run.kind == "embedder"]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_an_encoder_has_the_golden_numbers(name, workspace):
    check_run(workspace, name)


@pytest.mark.parametrize("name", NAMES)
def test_settings_of_encoders_are_the_golden_ones(name, workspace):
    check_config(workspace, f"run {name}", read_config(workspace.make(name)))


def test_a_file_gives_the_golden_vectors(workspace):
    workspace.make("sentence_embedding")
    folder = workspace.exported("sentence_embedding", "--precision", "int8")
    vectors = export.open_file(file_of(folder, "int8"))(fixed_batch())
    comparing_goldens.check(
        "exports", "embedder int8", comparing_goldens.summary(vectors)
    )


def test_evaluate_compares_pairs_as_the_golden_does(workspace):
    workspace.make("sentence_embedding")
    words = ("evaluate", "@sentence_embedding", "--test", *PAIRS)
    answer = json.loads(workspace.run(*words).splitlines()[-1])
    fields = ("task", "split", "examples", "metrics")
    comparing_goldens.check(
        "verbs", "evaluate pairs", {field: answer[field] for field in fields}
    )
