"""HDF5 files of weights are first opened in a separate process."""

import json
import os
import resource
import struct
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest
from helpers import bert

from kdkit.errors import UsageError
from kdkit.io import hdf5, hdf5_walk
from kdkit.io.hdf5 import hdf5_problem
from kdkit.models.trust import require_safe_archive, require_safe_directory

DRIVER = 0x30  # in HDF5's superblock, where the address of a block stands
SAYS = 0xC0000000  # bytes that the block says it has


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "model.weights.h5"
    with h5py.File(path, "w") as file:
        file["layers/dense/vars/0"] = np.ones((3, 2))
        file["layers/dense"].attrs["name"] = "dense"
    return path


def swollen(path):
    """Lets a file say of a block of it that it has 3 GB."""
    content = bytearray(path.read_bytes())
    place = len(content)
    content += struct.pack("<BxxxI", 0, SAYS) + bytes(100)
    struct.pack_into("<Q", content, 0x28, len(content))
    struct.pack_into("<Q", content, DRIVER, place)
    path.write_bytes(content)


def run(code, path):
    """A program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, path],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
    )


def test_whole_files_have_no_problem(weights, tmp_path):
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file.create_group("empty")
    assert hdf5_problem(weights, other) is None
    assert hdf5_problem() is None


@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_of_archives_are_walked_through(how, weights, tmp_path):
    whole, cut = tmp_path / "whole.keras", tmp_path / "cut.keras"
    for path, content in (
        (whole, weights.read_bytes()),
        (cut, weights.read_bytes()[:900]),
    ):
        with zipfile.ZipFile(path, "w", how) as archive:
            archive.writestr("config.json", "{}")
            archive.writestr("model.weights.h5", content)
    assert hdf5_problem((whole, "model.weights.h5")) is None
    problem = hdf5_problem((cut, "model.weights.h5"))
    assert "model.weights.h5: Unable to" in problem


def test_a_stored_member_is_not_read_again_for_each_step_back(
    weights, tmp_path, monkeypatch
):
    """Gigabytes of a large model's file would be, for each layer."""
    with h5py.File(weights, "r+") as file:
        for number in range(50):
            file[f"layers/{number}/vars/0"] = np.ones(10_000)
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(weights, "model.weights.h5")
    sizes = []
    read = hdf5_walk.Stretch.readinto

    def counted(self, buffer):
        sizes.append(read(self, buffer))
        return sizes[-1]

    monkeypatch.setattr(hdf5_walk.Stretch, "readinto", counted)
    hdf5_walk.walk_member(path, "model.weights.h5")
    assert 0 < sum(sizes) < 0.1 * weights.stat().st_size


@pytest.mark.skipif(
    sys.platform != "linux", reason="memory is limited on Linux"
)
def test_a_file_that_says_it_needs_gigabytes_is_refused_in_little_memory(
    weights,
):
    swollen(weights)
    code = (
        "import resource, sys, pathlib\n"
        "from kdkit.io.hdf5 import hdf5_problem\n"
        "print(hdf5_problem(pathlib.Path(sys.argv[1])))\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "sys.exit(used > 500_000)"
    )
    done = run(code, weights)
    assert done.returncode == 0, done.stderr
    assert "after H5MM_realloc" in done.stdout


@pytest.mark.parametrize("damage", ["cut off", "empty", "no HDF5"])
def test_damaged_files_are_told_in_a_line(damage, weights):
    content = weights.read_bytes()
    weights.write_bytes(
        {"cut off": content[:900], "empty": b"", "no HDF5": b"words\n"}[damage]
    )
    problem = hdf5_problem(weights)
    assert "Unable to" in problem
    assert "\n" not in problem


def test_numbers_in_chunks_are_refused(weights):
    """Of a chunk nobody knows what it needs before it is read."""
    with h5py.File(weights, "r+") as file:
        file.create_dataset("packed", data=np.ones(8), chunks=(8,))
    problem = hdf5_problem(weights)
    assert "/packed is stored in chunks" in problem


def test_what_a_site_prints_is_not_taken_for_an_answer(
    weights, tmp_path, monkeypatch
):
    (tmp_path / "sitecustomize.py").write_text("print('{}')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])  # no string
    assert hdf5_problem(weights) is None
    weights.write_bytes(b"")
    assert "Unable to" in hdf5_problem(weights)


def test_groups_within_each_other_come_to_an_end(weights):
    with h5py.File(weights, "r+") as file:
        file["layers/again"] = file["layers"]
        file["layers/gone"] = h5py.SoftLink("/nowhere")
        file["layers/elsewhere"] = h5py.ExternalLink("other.h5", "/")
    assert hdf5_problem(weights) is None


@pytest.mark.parametrize(
    ("code", "seconds", "problem"),
    [
        ("import os; os.abort()", 300, "it ends the process that opens it"),
        ("import time; time.sleep(60)", 1, "opening it takes more than 1 s"),
    ],
)
def test_what_ends_a_process_or_stops_it_is_a_problem_of_the_file(
    code, seconds, problem, weights, tmp_path, monkeypatch
):
    script = tmp_path / "walk.py"
    script.write_text(f"print('kdkit begun', flush=True)\n{code}")
    monkeypatch.setattr(hdf5, "SCRIPT", script)
    monkeypatch.setattr(hdf5, "SECONDS", seconds)
    assert hdf5_problem(weights) == problem


@pytest.mark.parametrize(
    "where", ["packed", "in a server", "gone", "without h5py"]
)
def test_what_cannot_be_looked_at_is_no_problem(
    where, weights, tmp_path, monkeypatch
):
    weights.write_bytes(b"")
    if where == "packed":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    elif where == "in a server":
        monkeypatch.setattr(sys, "executable", "/usr/sbin/httpd")
    elif where == "gone":
        monkeypatch.setattr(sys, "executable", "/nowhere/bin/python3")
    else:
        script = tmp_path / "walk.py"
        script.write_text("print('a site')\nimport no_such_module")
        monkeypatch.setattr(hdf5, "SCRIPT", script)
    assert hdf5_problem(weights) is None


@pytest.mark.parametrize("allowed", [1000, resource.RLIM_INFINITY])
def test_memory_is_limited_by_what_is_allowed(allowed, monkeypatch):
    """As by a batch system: more than that cannot be asked for."""
    limits = []
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (0, allowed))
    monkeypatch.setattr(
        resource, "setrlimit", lambda kind, limit: limits.append(limit)
    )
    hdf5_walk.limit_memory()
    ((soft, hard),) = limits
    assert soft == hard
    assert (soft == allowed) == (allowed == 1000)
    assert soft > hdf5_walk.MEMORY or allowed == 1000


def test_a_preset_whose_weights_say_they_need_gigabytes_is_refused(tmp_path):
    bert().backbone.save_to_preset(str(tmp_path))
    require_safe_directory(tmp_path)
    swollen(tmp_path / "model.weights.h5")
    require_safe_directory(tmp_path, is_built=False)
    with pytest.raises(UsageError, match="its weights cannot be opened"):
        require_safe_directory(tmp_path)


@pytest.mark.parametrize(
    "name", ["._model.weights.h5", "features.h5", "old.weights.h5"]
)
def test_files_that_are_no_weights_of_a_preset_are_passed_over(name, tmp_path):
    """macOS puts some into archives; people keep others there."""
    bert().backbone.save_to_preset(str(tmp_path))
    if name == "features.h5":
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("x", data=np.ones(8), compression="gzip")
    else:
        (tmp_path / name).write_bytes(b"Mac OS X")
    require_safe_directory(tmp_path)


def test_a_shard_of_weights_is_opened_first(tmp_path):
    bert().backbone.save_to_preset(str(tmp_path))
    shard = tmp_path / "model_00000.weights.h5"
    (tmp_path / "model.weights.h5").rename(shard)
    index = {"weight_map": {"layers/dense": shard.name}}
    (tmp_path / "model.weights.json").write_text(json.dumps(index))
    require_safe_directory(tmp_path)
    swollen(shard)
    with pytest.raises(UsageError, match=f"cannot be opened .+{shard.name}"):
        require_safe_directory(tmp_path)


def test_a_keras_file_whose_weights_say_they_need_gigabytes_is_refused(
    tmp_path,
):
    path = tmp_path / "model.keras"
    bert().save(path)
    require_safe_archive(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    weights = tmp_path / "weights.h5"
    weights.write_bytes(parts["model.weights.h5"])
    swollen(weights)
    parts["model.weights.h5"] = weights.read_bytes()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(UsageError, match="its weights cannot be opened"):
        require_safe_archive(path)
