"""Processes that train together, as on several machines, on loopback."""

import json
import os
import subprocess
import sys

import pytest
from kit.adapter import command
from kit.comparing import assert_same_run
from kit.helpers import free_ports, read_events

pytestmark = [pytest.mark.large, pytest.mark.usefixtures("quick_runs")]

SECONDS = 300  # until a process counts as hanging
MAIN = """
import sys
from kit.adapter import command
from kit.helpers import small_dev_set
with small_dev_set():
    answer = command(sys.argv[1:])
print(answer)
sys.exit(answer.status)
"""
# Batches of 8, 8 and 3 rows.
SMALL = (
    *("--smoke", "--set", "data.max_train_rows=19"),
    *("--batch-size", "8", "stages.fine_tuning.keep_best=false"),
)


def run_processes(words, number):
    """Runs a command in several processes; returns their status and output."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(number)]
    started = []
    for index in range(number):
        config = {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": index},
        }
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", MAIN, *map(str, words)],
                env={
                    **os.environ,
                    "TF_CONFIG": json.dumps(config),
                    "PYTHONPATH": os.pathsep.join(sys.path),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        outputs = [one.communicate(timeout=SECONDS)[0] for one in started]
    finally:
        for process in started:
            process.kill()
    return [process.returncode for process in started], outputs


def test_two_processes_have_the_numbers_of_one(tmp_path):
    teacher, one, run = (tmp_path / name for name in ("teacher", "one", "run"))
    words = ["train-teacher", *SMALL, "--run-dir", teacher]
    assert command(words).status == 0
    words = ["distill", "vanilla_kd", *SMALL, "--set", f"teacher={teacher}"]
    assert command([*words, "--run-dir", one]).status == 0
    words += ["--strategy", "multi_worker", "--run-dir", run]
    status, outputs = run_processes(words, 2)
    assert status == [0, 0], outputs
    assert_same_run(run, one)
    # One process wrote.
    assert len(list((run / "tensorboard").rglob("events.out.*"))) == 2
    assert len(read_events(run, "run_finished")) == 1
