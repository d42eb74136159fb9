"""Fixtures: quick runs, and one finished run that all tests read."""

import os
import shutil
import zlib

import filelock
import pytest


@pytest.fixture(scope="module")
def quick_runs():
    """Few rows to measure on, and steps that are not traced.

    The finished run is traced, as users' runs are.
    """
    from kit.helpers import eager_steps, small_dev_set

    with small_dev_set(), eager_steps():
        yield


@pytest.fixture
def text_files(tmp_path, monkeypatch):
    """The working directory: general.txt, task.txt and held_out.txt in it."""
    monkeypatch.chdir(tmp_path)
    for name in ("general", "task", "held_out"):
        lines = (
            f"black monday {day} hit the {name} exchange" for day in range(20)
        )
        (tmp_path / f"{name}.txt").write_text("\n".join([*lines, ""]))
    return tmp_path


@pytest.fixture(scope="session")
def smoke_settings():
    from kdkit.runs.configure import config_of

    # Batches of different lengths, as runs have them.
    data = {"max_train_rows": 64, "num_buckets": 2}
    given = {"control": True, "data": data}
    return config_of("tinybert", given, smoke=True)


@pytest.fixture(autouse=True)
def unchanged_workspace(request):
    """Fails a test that adds to or changes a shared run: copy it first."""
    yield
    if "workspace" in request.fixturenames:
        assert not request.getfixturevalue("workspace").changed()


@pytest.fixture(autouse=True)
def unchanged_run(request):
    """Fails a test that adds to or changes the finished run of all tests.

    A test that notes something in a run, as `evaluate` does, copies it first.
    """
    if "finished_run" not in request.fixturenames:
        yield
        return
    run = request.getfixturevalue("finished_run")
    before = contents(run)
    yield
    changed = {name for name, _ in before ^ contents(run)}
    assert not changed, f"changed in the run of all tests: {sorted(changed)}"


def contents(folder):
    """The files of a folder, with the sums of their contents."""
    return {
        (str(path.relative_to(folder)), zlib.crc32(path.read_bytes()))
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    }


@pytest.fixture(scope="session")
def finished_run(smoke_settings, tmp_path_factory):
    """A run directory of TinyBERT with a control arm and its own teacher."""
    path = tmp_path_factory.mktemp("runs") / "tinybert"
    if "PYTEST_XDIST_WORKER" not in os.environ:
        make_run(smoke_settings, path)
        return path
    # Made by the worker that comes first, copied by each.
    shared = tmp_path_factory.getbasetemp().parent / "finished_run"
    with filelock.FileLock(shared.with_suffix(".lock")):
        make_run(smoke_settings, shared)  # finished: nothing to do
        shutil.copytree(shared, path)
    return path


def make_run(settings, path):
    from kdkit.runs.run import run
    from kit.helpers import small_dev_set

    with small_dev_set():
        run(settings, path)
