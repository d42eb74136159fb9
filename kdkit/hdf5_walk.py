"""Opens all that is in HDF5 files: a script that `kdkit/hdf5.py` runs.

    python hdf5_walk.py '[["model.weights.h5", null]]'

Its argument is a list of pairs, in JSON: a path and `null`, or the path of an
archive and the name of its member. Prints a line when it begins, and another
one, in JSON, of what is wrong with the first file that cannot be walked
through. Both begin with `kdkit`: what a site runs when Python starts may print.
"""

import json
import resource
import sys
import zipfile

import h5py
import psutil

MEMORY = 1 << 28  # bytes for what files say of themselves


def main(files):
    """Returns the exit status: 1 where something is wrong."""
    limit_memory()
    print("kdkit begun", flush=True)
    for path, member in files:
        try:
            if member is None:
                with h5py.File(path, "r") as file:
                    walk(file)
            else:
                with (
                    zipfile.ZipFile(path) as archive,
                    archive.open(member) as part,
                    h5py.File(part, "r") as file,
                ):
                    walk(file)
        except Exception as error:  # h5py raises many kinds
            print("kdkit", json.dumps(str(error) or type(error).__name__))
            return 1
    return 0


def limit_memory():
    """Lets the process take no more than `MEMORY`, where there is Linux."""
    if sys.platform.startswith("linux"):
        most = psutil.Process().memory_info().vms + MEMORY
        allowed = resource.getrlimit(resource.RLIMIT_AS)[1]
        if allowed != resource.RLIM_INFINITY:
            most = min(most, allowed)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def walk(file):
    """Opens each group, each data set and each attribute once."""
    seen, groups = set(), [file]
    while groups:
        group = groups.pop()
        dict(group.attrs)
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue  # Keras refuses the others
            found = group[name]
            place = h5py.h5o.get_info(found.id).addr
            if place in seen:
                continue
            seen.add(place)
            if isinstance(found, h5py.Group):
                groups.append(found)
                continue
            dict(found.attrs)
            if getattr(found, "chunks", None) is not None:
                # Each may need any memory, whatever the shape of all is.
                raise ValueError(
                    f"{found.name} is stored in chunks, which Keras does not "
                    "write"
                )


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
