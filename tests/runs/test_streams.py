"""Closed output streams, and unwanted notices of libraries."""

import json
import os
import shutil
import subprocess
import sys

import pytest

KDKIT = f"{sys.executable} -m kdkit"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def shell(command, **environment):
    """Runs a command of a shell, which closes streams before it starts."""
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, **environment},
    )


def test_reader_that_stops_reading_is_no_error():
    done = shell(f"{KDKIT} list | head -1; echo ${{PIPESTATUS[0]}}")
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("closed", "status", "out"),
    [
        ("2>&-", 2, "kdkit show: Unknown recipe."),
        (">&-", 2, ""),
        ("2>&- >&-", 2, ""),
        ("0<&- 2>&- >&-", 2, ""),
    ],
)
def test_mistake_is_told_where_there_is_a_stream(closed, status, out):
    done = shell(f"{KDKIT} show nothing {closed}")
    assert done.returncode == status
    assert done.stdout.startswith(out)
    assert bool(done.stdout) == bool(out)


def test_verb_without_standard_output_does_its_work():
    assert shell(f"{KDKIT} show tinybert >&-").returncode == 0
    assert shell(f"{KDKIT} --help >&-").returncode == 0


@pytest.fixture
def run(finished_run, tmp_path):
    """A copy of the finished run: `evaluate` adds to the log of a run."""
    return shutil.copytree(finished_run, tmp_path / "run")


@pytest.mark.large
def test_a_file_does_not_take_the_place_of_a_closed_stream(run):
    done = shell(f"{KDKIT} evaluate {run} 2>&- | tail -1")
    assert json.loads(done.stdout)["task"] == "sentiment"


@pytest.mark.large
def test_run_goes_on_when_its_reader_stops(run):
    done = shell(
        f"{KDKIT} evaluate {run} 2>&1 >&- | true; echo ${{PIPESTATUS[0]}}"
    )
    assert done.stdout == "0\n"


@pytest.mark.large
def test_notices_of_tensorflow_are_shown_where_they_are_asked_for(run):
    command = f"{KDKIT} evaluate {run} > /dev/null"
    quiet = shell(command, TF_CPP_MIN_LOG_LEVEL="2").stderr
    assert quiet == f"kdkit evaluate {run}: loading TensorFlow.\n"
    asked = shell(command, TF_CPP_MIN_LOG_LEVEL="0").stderr
    assert asked.startswith(quiet)
    assert len(asked) > len(quiet)
