"""Opens everything in HDF5 files: a script that `kdkit/io/hdf5.py` runs.

python hdf5_walk.py '[["model.weights.h5", null]]'

The argument is a JSON list of pairs: a path and `null`, or an archive's path
and a member's name. Prints a line when it begins, and another one, in JSON, for
the first file with an error. Both begin with `kdkit`, because other code that
runs when Python starts may print as well.
"""

import io
import json
import pathlib
import shutil
import struct
import sys
import tempfile
import zipfile

import h5py

try:
    import resource
except ImportError:  # on Windows
    resource = None

MEMORY = 1 << 28  # bytes for the files' metadata
NAMES = struct.Struct("<26xHH")  # the end of a member's header: two lengths


class Stretch(io.RawIOBase):
    """A part of an open file, read like a file."""

    def __init__(self, file, start, size):
        self._file, self._start, self._size = file, start, size
        self._place = 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self._place

    def seek(self, offset, whence=io.SEEK_SET):
        before = {io.SEEK_SET: 0, io.SEEK_CUR: self._place}
        self._place = max(0, before.get(whence, self._size) + offset)
        return self._place

    def readinto(self, buffer):
        self._file.seek(self._start + self._place)
        left = max(0, self._size - self._place)
        content = self._file.read(min(len(buffer), left))
        buffer[: len(content)] = content
        self._place += len(content)
        return len(content)


def main(files):
    """Returns the exit status: 1 for an error."""
    limit_memory()
    print("kdkit begun", flush=True)
    for path, member in files:
        try:
            if member is None:
                with h5py.File(path, "r") as file:
                    walk(file)
            else:
                walk_member(path, member)
        except Exception as error:  # h5py raises many kinds
            name = member or pathlib.Path(path).name
            problem = f"{name}: {error or type(error).__name__}"
            print("kdkit", json.dumps(problem))
            return 1
    return 0


def walk_member(path, member):
    """Opens everything in an archive's member."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(member)
        with archive.open(info) as part:  # checks its header
            if info.compress_type != zipfile.ZIP_STORED:
                with tempfile.TemporaryFile() as copy:
                    shutil.copyfileobj(part, copy)
                    with h5py.File(copy, "r") as file:
                        walk(file)
                return
    with open(path, "rb") as whole:
        whole.seek(info.header_offset)
        header = whole.read(NAMES.size)
        start = info.header_offset + len(header) + sum(NAMES.unpack(header))
        with h5py.File(Stretch(whole, start, info.file_size), "r") as file:
            walk(file)


def limit_memory():
    """Limits the process's memory to `MEMORY`, on Linux only."""
    if resource is not None and sys.platform.startswith("linux"):
        pages = pathlib.Path("/proc/self/statm").read_text().split()[0]
        most = int(pages) * resource.getpagesize() + MEMORY
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
                continue  # Keras rejects other links
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
                # Chunks may need any memory, whatever the data set's shape is.
                raise ValueError(
                    f"{found.name} is stored in chunks, which Keras does not "
                    "write"
                )


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
