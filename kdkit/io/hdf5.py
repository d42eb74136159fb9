"""Checks HDF5 files in a separate process before they are loaded.

HDF5 allocates the memory that sizes in a file ask for, 3 GB for one file of
2 kB, and may crash on damaged files. So a separate process opens everything in
weight files before this process loads them.
"""

import json
import os
import pathlib
import subprocess
import sys

from kdkit.errors import shortened

SCRIPT = pathlib.Path(__file__).with_name("hdf5_walk.py")
OWN = "kdkit "  # prefix of the script's output lines
SECONDS = 300.0  # enough for thousands of layers on a slow disk


def hdf5_problem(
    *files: pathlib.Path | tuple[pathlib.Path, str],
) -> str | None:
    """Returns the error in weight files, or `None`."""
    if not files or not _is_interpreter(sys.executable):
        return None
    places = [
        [str(part) for part in file]
        if isinstance(file, tuple)
        else [str(file), None]
        for file in files
    ]
    # Python ignores entries that are not strings.
    found = [entry for entry in sys.path if entry and isinstance(entry, str)]
    try:
        done = subprocess.run(
            # `-P`: not the script's folder, whose modules have common names.
            [sys.executable, "-P", SCRIPT, json.dumps(places)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(found),
                "OPENBLAS_NUM_THREADS": "1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"opening it takes more than {SECONDS:.0f} s"
    except OSError:  # no memory for a process, or Python was replaced
        return None
    begun, *said = [
        line.removeprefix(OWN)
        for line in done.stdout.splitlines()
        if line.startswith(OWN)
    ] or [None]
    if done.returncode == 0 or begun is None:  # no error, or it did not run
        return None
    if not said:
        return "it ends the process that opens it"
    return shortened(json.loads(said[0]))


def _is_interpreter(program):
    """Whether a program is Python itself, not a packed program or a server."""
    name = pathlib.Path(program or "").name.lower()
    is_packed = getattr(sys, "frozen", False)
    return name.startswith(("python", "pypy")) and not is_packed
