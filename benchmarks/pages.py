"""Commit, machine and file writing for the pages of measurements."""

import os
import pathlib
import platform
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def write(path, text):
    """Writes a file under a temporary name and renames it."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def commit():
    """The commit that is measured, and whether it was changed."""
    found = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    # The pages themselves change while they are written.
    changed = subprocess.run(
        ["git", "diff", "--quiet", "HEAD", "--", ":/kdkit", ":/benchmarks"],
        cwd=HERE,
    )
    if changed.returncode:
        found += " with changes"
    return found


def machine():
    """The commit and the machine of a measurement, in words."""
    return (
        f"commit {commit()}; {platform.machine()}, {os.cpu_count()} cores, "
        f"{processor()}; Python {platform.python_version()}"
    )


def processor():
    """Returns the processor's name, from Linux."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line for line in lines if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else "unknown"
