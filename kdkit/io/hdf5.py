"""What is wrong with HDF5 files, found where it does no harm.

The library of HDF5 takes the memory that sizes in a file ask for, 3 GB for one
of 2 kB, and may end its process on damaged ones. So files of weights are walked
through in a process of their own before they are loaded into this one.
"""

import json
import os
import pathlib
import subprocess
import sys

from kdkit.errors import shortened

SCRIPT = pathlib.Path(__file__).with_name("hdf5_walk.py")
OWN = "kdkit "  # before what the script says
SECONDS = 300.0  # thousands of layers on a slow disk take some


def hdf5_problem(
    *files: pathlib.Path | tuple[pathlib.Path, str],
) -> str | None:
    """Returns what is wrong with files of weights, `None` if nothing is.

    Opens all that is in them, but does not read the numbers: in 256 MB of
    memory on Linux. Where no process can be started, or Python runs within
    another program, nothing is looked at.

    Args:
        files: paths; or path and name of a member, of an archive.
    """
    if not files or not _is_interpreter(sys.executable):
        return None
    places = [
        [str(part) for part in file]
        if isinstance(file, tuple)
        else [str(file), None]
        for file in files
    ]
    # Python passes over entries that are no strings.
    found = [entry for entry in sys.path if entry and isinstance(entry, str)]
    try:
        done = subprocess.run(
            # Not what stands beside the script, whose names are as others'.
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
    except OSError:  # there is no room for a process, or Python was replaced
        return None
    begun, *said = [
        line.removeprefix(OWN)
        for line in done.stdout.splitlines()
        if line.startswith(OWN)
    ] or [None]
    if done.returncode == 0 or begun is None:  # it could not look
        return None
    if not said:
        return "it ends the process that opens it"
    return shortened(json.loads(said[0]))


def _is_interpreter(program):
    """Whether a program is Python: not one that was packed, nor a server."""
    name = pathlib.Path(program or "").name.lower()
    is_packed = getattr(sys, "frozen", False)
    return name.startswith(("python", "pypy")) and not is_packed
