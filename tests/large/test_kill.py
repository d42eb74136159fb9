"""Runs that SIGKILL ended at random moments end like runs left alone.

python -m pytest --run-large tests/large/test_kill.py --kills 50
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile

import pytest
from kit.finished import contents as checksums
from kit.helpers import ROOT, read_events
from kit.runs import RUNS, STEPS

TIMES = ("time", "seconds", "date_saved", "own_digest")
OF_THE_MOMENT = ("memory",)  # of the doctor
SECONDS = 900
SAVING = ("--set", "training.checkpoint_minutes=0")
EAGER = (
    "-c",
    "import sys; from kit.adapter import command; from kit.helpers import "
    "eager_steps; eager_steps().__enter__(); *words, runs = sys.argv[1:]; "
    "sys.exit(any(command([*words, run]).status for run in runs.split(',')))",
)


def start(workspace, words, place, program=("-m", "kdkit")):
    """Starts a run's command in a process of its own."""
    words = workspace.words([*words, "--run-dir", place])
    path = f"{ROOT}{os.pathsep}{ROOT / 'tests'}"
    return subprocess.Popen(
        [sys.executable, *program, *words],
        cwd=workspace.path,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, out


def content(file, run):
    """A file's content without times and the run's path.

    `final.safetensors` has the best epoch and the checksum of the last one:
    weights, slots, sums of metrics, seeds. Of a log, its last events count.
    """
    if file.suffix == ".keras":
        with zipfile.ZipFile(file) as archive:
            names = set(archive.namelist()) - {"metadata.json"}  # a date
            return {name: archive.read(name) for name in names}
    if file.suffix not in (".json", ".jsonl"):
        return file.read_bytes()
    text = file.read_text()
    lines = text.splitlines() if file.suffix == ".jsonl" else [text]
    if file.name == "metrics.jsonl":
        lines = map(json.dumps, read_events(file.parent))
    found = [json.loads(line.replace(str(run), "RUN")) for line in lines]
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


def test_a_killed_run_goes_on_to_the_same_weights(workspace, tmp_path):
    whole, run = tmp_path / "whole", tmp_path / "run"
    words = (*RUNS["fine_tuning"].words, *SAVING)
    process = start(workspace, words, run, EAGER)
    log, began = run / "metrics.jsonl", time.monotonic()
    while not (log.exists() and '"event": "epoch"' in log.read_text()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < began + SECONDS
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    # In one process, as another's sums may have another last digit.
    finish(start(workspace, words, f"{run},{whole}", EAGER))
    assert checksums(run / "student") == checksums(whole / "student")


@pytest.mark.large
@pytest.mark.parametrize("name", RUNS)
def test_a_killed_run_ends_as_one_left_alone(
    name, workspace, tmp_path, request
):
    kills, place = request.config.getoption("--kills"), [*RUNS].index(name)
    kills = kills * (place + 1) // len(RUNS) - kills * place // len(RUNS)
    for needed in RUNS[name].needs:
        workspace.make(needed)
    words = [*RUNS[name].words, *SAVING]
    if RUNS[name].models == STEPS:
        for step in STEPS[1:]:
            step = step.removesuffix("_run")
            words.append(f"steps.{step}.training.checkpoint_minutes=0")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    began = time.monotonic()
    finish(start(workspace, words, whole))
    seconds = time.monotonic() - began
    rng = random.Random(name)
    for _ in range(kills):
        process = start(workspace, words, killed)
        try:
            process.wait(rng.uniform(0.3, 1) * seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        assert process.returncode in (0, -signal.SIGKILL)
    finish(start(workspace, words, killed))
    expected, found = contents(whole), contents(killed)
    assert any(name.endswith("final.safetensors") for name in found)
    assert found.keys() == expected.keys()
    assert not [file for file in found if found[file] != expected[file]]
