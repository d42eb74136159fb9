"""One finished smoke run, made once and read by all tests in this folder."""

import dataclasses
import fcntl
import os
import shutil

import pytest

from kdkit.recipes import RECIPES
from kdkit.recipes import smoke
from kdkit.settings import override
from kdkit.training import distill
from kdkit.training.run_settings import same_number_of_updates


@pytest.fixture(scope="session")
def smoke_settings():
    settings = smoke.distillation(RECIPES["tinybert"])
    settings = dataclasses.replace(
        settings, control=same_number_of_updates(settings.stages)
    )
    # Batches of different lengths, as runs have them.
    return override(settings, ["data.max_train_rows=64", "data.num_buckets=2"])


@pytest.fixture(scope="session")
def finished_run(smoke_settings, tmp_path_factory):
    """A run directory of TinyBERT with a control arm and its own teacher."""
    path = tmp_path_factory.mktemp("runs") / "tinybert"
    if "PYTEST_XDIST_WORKER" not in os.environ:
        distill(smoke_settings, path)
        return path
    # Made by the worker that comes first, copied by each.
    shared = tmp_path_factory.getbasetemp().parent / "finished_run"
    with open(shared.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        distill(smoke_settings, shared)  # finished: nothing to do
        shutil.copytree(shared, path)
    return path
