"""Runs that SIGKILL ended at random moments end like runs left alone.

python -m pytest --run-large tests/large/test_kill.py --kills 50
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "contract"))

from kit.runs import RUNS, STEPS, Workspace  # noqa: E402

pytestmark = pytest.mark.large

TIMES = ("time", "seconds", "date_saved", "own_digest")
OF_THE_MOMENT = ("memory", "disk", "disk of the cache")  # of the doctor


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return Workspace(tmp_path_factory.mktemp("kill"))


def start(workspace, name, place):
    """Starts the run's command, which saves after every step."""
    words = [*workspace.words(RUNS[name].words), "--run-dir", str(place)]
    steps = [step.removesuffix("_run") for step in STEPS[1:]]
    saving = ["checkpoint_minutes=0"]
    if RUNS[name].models == STEPS:
        saving += [f"{step}.checkpoint_minutes=0" for step in steps]
    for one in saving:
        words += ["--set", one]
    return subprocess.Popen(
        [sys.executable, "-m", "kdkit", *words],
        cwd=workspace.path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    out, _ = process.communicate(timeout=900)
    assert process.returncode == 0, out


def content(file, run):
    """A file's content without times and the run's path."""
    if file.suffix == ".keras":
        with zipfile.ZipFile(file) as archive:
            names = set(archive.namelist()) - {"metadata.json"}  # a date
            return {name: archive.read(name) for name in names}
    if file.suffix not in (".json", ".jsonl"):
        return file.read_bytes()
    text = file.read_text().replace(str(run), "RUN")
    lines = text.splitlines() if file.suffix == ".jsonl" else [text]
    found = [json.loads(line) for line in lines]
    for value in found:
        if isinstance(value, dict):
            for name in TIMES:
                value.pop(name, None)
            value.get("provenance", {}).pop("command", None)
            for finding in value.get("findings", ()):
                if finding["check"] in OF_THE_MOMENT:
                    finding.pop("found")
    return found


def contents(run):
    return {
        path.relative_to(run).as_posix(): content(path, run)
        for path in run.rglob("*")
        if path.is_file()
        and "tfevents" not in path.name
        and path.name != ".lock"  # names the process that held it
    }


@pytest.mark.parametrize("name", RUNS)
def test_a_killed_run_ends_as_one_left_alone(name, workspace, request):
    kills, place = request.config.getoption("--kills"), [*RUNS].index(name)
    kills = kills * (place + 1) // len(RUNS) - kills * place // len(RUNS)
    for needed in RUNS[name].needs:
        workspace.make(needed)
    whole, killed = (workspace.path / f"{name}_{end}" for end in "ab")
    began = time.monotonic()
    finish(start(workspace, name, whole))
    seconds = time.monotonic() - began
    rng = random.Random(name)
    for _ in range(kills):
        process = start(workspace, name, killed)
        try:
            process.wait(rng.uniform(0.3, 1) * seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        assert process.returncode in (0, -signal.SIGKILL)
    finish(start(workspace, name, killed))
    expected, found = contents(whole), contents(killed)
    assert found.keys() == expected.keys()
    different = [file for file in found if found[file] != expected[file]]
    assert not different
