"""Processes that train together, as on several machines, on loopback."""

import json
import os
import subprocess
import sys
import threading

import pytest
from kit.comparing import assert_same_run
from kit.helpers import free_ports, read_events

from kdkit.cli.options import shard_part
from kdkit.cli.resolving import with_strategy
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.settings import override, to_dict
from kdkit.training import distill, train_teacher
from kdkit.training.distribution import processes_of_job

pytestmark = pytest.mark.usefixtures("quick_runs")

SECONDS = 300  # until a process counts as hanging
# Batches of 8, 8 and 3 rows.
SMALL = [
    "data.max_train_rows=19",
    "data.num_buckets=1",
    "stages.0.batch_size=8",
    "stages.0.keep_best=false",
]
MAIN = (
    "import sys\n"
    "from helpers import small_dev_set\n"
    "from kdkit.cli.main import main\n"
    "with small_dev_set():\n"
    "    sys.exit(main())"
)


def run_processes(arguments, number):
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
                [sys.executable, "-c", MAIN, *arguments],
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
    watch = threading.Timer(SECONDS, lambda: [one.kill() for one in started])
    watch.start()
    outputs = [process.communicate()[0] for process in started]
    watch.cancel()
    return [process.returncode for process in started], outputs


@pytest.mark.large
def test_two_processes_have_the_numbers_of_one(tmp_path):
    train_teacher(override(smoke.TEACHER, SMALL), tmp_path / "teacher")
    changes = [*SMALL, f"teacher={tmp_path / 'teacher'}"]
    settings = override(smoke.distillation(RECIPES["vanilla_kd"]), changes)
    distill(settings, tmp_path / "one")
    run = tmp_path / "run"
    config = tmp_path / "run.json"
    config.write_text(
        json.dumps(to_dict(with_strategy(settings, "multi_worker")))
    )
    words = ["distill", "vanilla_kd", "--config", str(config)]
    status, outputs = run_processes([*words, "--run-dir", str(run)], 2)
    assert status == [0, 0], outputs
    assert_same_run(run, tmp_path / "one")
    # One process wrote.
    assert len(list(run.rglob("events.out.*"))) == 2
    assert len(read_events(run, "run_finished")) == 1


def test_slurm_names_the_processes_in_the_order_of_tensorflow(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name, value in {
        "SLURM_STEP_NODELIST": "n[2,10]",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "1,1",
        "SLURM_PROCID": "0",
        "SLURMD_NODENAME": "n2",
    }.items():
        monkeypatch.setenv(name, value)
    assert processes_of_job() == (["n10:8888", "n2:8888"], 1)


@pytest.mark.parametrize(
    ("text", "part"), [(None, None), ("1/4", (0, 4)), ("4/4", (3, 4))]
)
def test_shards_are_counted_from_1(text, part):
    assert shard_part(text) == part


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "-1/2"])
def test_shards_that_are_none_are_refused(text):
    with pytest.raises(UsageError, match="such as 1/4"):
        shard_part(text)
