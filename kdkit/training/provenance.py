"""What made a run: command, commit, versions, machine."""

import importlib.metadata
import os
import pathlib
import platform
import shlex
import subprocess
import sys

PACKAGES = ("kdkit", "keras", "keras-hub", "tensorflow", "numpy")


def provenance() -> dict:
    """Returns command, commit of kdkit, versions and machine, as JSON data."""
    return {
        "command": shlex.join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": _commit(),
        "versions": {
            "python": platform.python_version(),
            **{package: _version(package) for package in PACKAGES},
        },
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def _commit():
    """The commit of the checkout that runs, marked where files changed."""
    directory = pathlib.Path(__file__).parent
    try:
        commit = _git(directory, "rev-parse", "--short=12", "HEAD")
        changed = _git(directory, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return "not a git checkout"
    return f"{commit} with local changes" if changed else commit


def _git(directory, *arguments):
    return subprocess.run(
        ["git", *arguments],
        cwd=directory,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
