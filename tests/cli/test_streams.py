"""Closed output streams, and unwanted notices of libraries."""

import os
import shutil
import subprocess
import sys

import pytest

KDKIT = f"{sys.executable} -m kdkit"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
ENVIRONMENT.pop("TF_CPP_MIN_LOG_LEVEL", None)


def shell(command, **environment):
    """Runs a command of a shell, which closes streams before it starts."""
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, **environment},
    )


def test_a_verb_stops_quietly_when_its_reader_is_gone():
    done = shell(f"{KDKIT} list | true; echo ${{PIPESTATUS[0]}}")
    assert done.stdout.splitlines()[-1] == "1"
    assert done.stderr == ""


@pytest.mark.parametrize("words", ["show tinybert", "--help", "list"])
def test_verb_without_standard_output_does_its_work(words):
    assert shell(f"{KDKIT} {words} >&-").returncode == 0


@pytest.mark.large
def test_notices_of_tensorflow_are_shown_where_they_are_asked_for(
    finished_run, tmp_path
):
    run = shutil.copytree(finished_run, tmp_path / "run")
    command = f"{KDKIT} evaluate {run} > /dev/null"
    quiet = shell(command).stderr.splitlines()
    asked = shell(command, TF_CPP_MIN_LOG_LEVEL="0").stderr.splitlines()
    assert quiet[0] == asked[0] == "kdkit: loading TensorFlow."
    assert all(line.startswith("kdkit") for line in quiet)
    assert not all(line.startswith("kdkit") for line in asked)
