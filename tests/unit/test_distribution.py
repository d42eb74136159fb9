"""The devices and processes of a run: `kdkit.training.distribution`."""

import json

import pytest
from kit.adapter import resolved

from kdkit.cli.loading import choose_devices
from kdkit.training import distribution


@pytest.mark.parametrize(
    ("number", "noted", "taken"),
    [(None, {"replicas": 4}, [4]), (2, {"replicas": 4}, [2]), (None, {}, [])],
)
def test_a_config_alone_takes_as_many_devices_as_its_run_had(
    number, noted, taken, tmp_path, monkeypatch
):
    found = []
    monkeypatch.setattr(distribution, "use_devices", found.append)
    (tmp_path / "config.json").write_text(json.dumps(noted))
    choose_devices("mirrored", number, str(tmp_path))
    choose_devices(None, None, str(tmp_path))
    assert found == taken


def test_runs_in_a_run_share_its_strategy():
    words = ["distill", "tinybert", "--smoke", "--strategy", "mirrored"]
    steps = resolved([*words, "--run-dir", "unused"])["steps"]
    assert steps["teacher"]["training"]["strategy"] == "mirrored"


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
    processes = ["n10:8888", "n2:8888"], 1
    assert distribution.processes_of_job() == processes
