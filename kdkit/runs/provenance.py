"""What made a run: command, commit, versions and machine."""

import importlib.metadata
import os
import pathlib
import platform
import shlex
import subprocess
import sys

from kdkit.io.machine import processor
from kdkit.late import tf
from kdkit.version import __version__

PACKAGES = ("keras", "keras-hub", "tensorflow", "numpy")
# Environment variables that change the arithmetic of every run.
VARIABLES = (
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_SET_ONEDNN_FPMATH_MODE",
)


def provenance() -> dict:
    """Returns command, kdkit's commit, versions and machine as JSON data."""
    return {
        "command": _command(),
        "commit": _commit(),
        "versions": {
            "python": platform.python_version(),
            "kdkit": __version__,
            **{package: _version(package) for package in PACKAGES},
        },
        "machine": _machine(),
    }


def _machine():
    """The processor, its cores, and the accelerators that TensorFlow sees."""
    parts = [processor()]
    for device in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(device)
        parts.append(details.get("device_name", device.name))
    return ", ".join(parts)


def _command():
    """The command line as typed, with the home directory as `~`."""
    home = str(pathlib.Path.home()) + os.sep
    words = [
        f"{name}={shlex.quote(os.environ[name])}"
        for name in VARIABLES
        if name in os.environ
    ]
    program, *arguments = sys.argv
    if pathlib.Path(program).parts[-2:] == ("kdkit", "__main__.py"):
        words.append("kdkit")  # python -m kdkit
    elif program.endswith(".py"):
        words += ["python", shlex.quote(_from_here(program))]
    else:
        words.append(pathlib.Path(program).name)
    for word in arguments:
        at_home = word.startswith(home)
        rest = shlex.quote(word.removeprefix(home))
        words.append(f"~/{rest}" if at_home else shlex.quote(word))
    return " ".join(words)


def _from_here(path):
    """A path relative to the working directory; only the name if outside it."""
    path = pathlib.Path(path).absolute()
    here = pathlib.Path.cwd()
    return str(path.relative_to(here)) if here in path.parents else path.name


def _commit():
    """The commit of kdkit's checkout, with a note on changes; empty without."""
    file = pathlib.Path(__file__)
    directory = file.parents[1]  # the package
    try:
        # An environment inside another project's checkout is not kdkit's.
        _git(directory, "ls-files", "--error-unmatch", str(file))
        commit = _git(directory, "rev-parse", "--short=12", "HEAD")
        changed = _git(directory, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return ""
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
