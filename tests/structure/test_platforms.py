"""Windows and macOS: kdkit imports no POSIX module and needs no POSIX call."""

import os
import subprocess
import sys

from kdkit.cli.places import is_path
from kdkit.io.files import staged, write_text
from kdkit.io.locks import append_line, locked

# Imports all of kdkit, its own imports without the modules and the names that
# Windows lacks. Other packages are as they are on Linux.
IMPORT_ALL = """
import builtins, importlib, os, pkgutil, signal, sys

ABSENT = {
    "crypt", "curses", "fcntl", "grp", "posix", "pty", "pwd", "readline",
    "resource", "spwd", "syslog", "termios", "tty",
}
real_import = builtins.__import__

def windows_import(name, globals=None, *rest):
    importer = (globals or {}).get("__name__") or ""
    if importer.partition(".")[0] == "kdkit" and name in ABSENT:
        raise ModuleNotFoundError(f"{importer} imports {name}", name=name)
    return real_import(name, globals, *rest)

import keras_hub, tensorflow, tensorflow_text, sklearn.metrics, filelock

builtins.__import__ = windows_import
for module, names in {
    os: "fork sync posix_fallocate O_NOFOLLOW O_DIRECTORY getuid".split(),
    signal: "SIGKILL SIGHUP SIGALRM pthread_kill".split(),
}.items():
    for name in names:
        delattr(module, name)

import kdkit

imported = ["kdkit"]
for module in pkgutil.walk_packages(kdkit.__path__, "kdkit."):
    if module.name != "kdkit.__main__":  # runs the command line
        importlib.import_module(module.name)
        imported.append(module.name)
print(len(imported), kdkit.Distiller.__name__)
"""


def test_all_of_kdkit_imports_without_posix():
    ended = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    number, name = ended.stdout.split()
    assert int(number) > 50
    assert name == "Distiller"


def test_files_are_written_without_posix(tmp_path, monkeypatch):
    """Flushed where Windows can, and folders replaced in two steps."""
    for name in ("O_NOFOLLOW", "posix_fallocate"):
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(sys, "platform", "win32")
    folder = tmp_path / "folder"
    for text in ("old", "new"):
        write_text(tmp_path / "file", text)
        with staged(folder, num_bytes=10) as partial:
            partial.mkdir()
            (partial / "file").write_text(text)
        append_line(tmp_path / "log", text)
    assert (tmp_path / "file").read_text() == "new"
    assert (folder / "file").read_text() == "new"
    assert (tmp_path / "log").read_text() == "old\nnew\n"
    with locked(tmp_path / ".lock", "busy"):
        names = {path.name for path in tmp_path.iterdir()}
    assert names == {"file", "folder", "log", ".lock"}


def test_models_are_named_by_paths_of_windows(monkeypatch):
    monkeypatch.setattr(os, "sep", "\\")
    assert is_path("runs\\pkd")
    assert is_path("runs/pkd")
    assert not is_path("bert_tiny_en_uncased")
