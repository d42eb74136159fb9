"""Files of a cache: Arrow tables, written once, read where they are needed."""

import pathlib
import uuid

import numpy as np
import pyarrow as pa

from kdkit.files import digest
from kdkit.files import staged
from kdkit.teacher_cache.keys import KEY_BYTES

KEY = "key"


def write_shard(directory: pathlib.Path, keys: list, columns: dict) -> dict:
    """Writes a new file.

    Args:
        directory: `pathlib.Path`.
        keys: list of bytes, one per row.
        columns: dict from the name of an entry to a list of bytes, one per row.

    Returns:
        What the index says of it: `file`, `rows`, `entries`, `bytes`,
        `sha256`.
    """
    arrays = {KEY: pa.array(keys, pa.binary(KEY_BYTES))}
    for name, values in columns.items():
        arrays[name] = pa.array(values, pa.large_binary())
    table = pa.table(arrays)
    path = directory / f"{uuid.uuid4().hex}.arrow"
    with (
        staged(path) as partial,
        pa.OSFile(str(partial), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)
    return {
        "file": path.name,
        "rows": len(keys),
        "entries": sorted(columns),
        "bytes": path.stat().st_size,
        "sha256": digest(path),
    }


class Shard:
    """An open file; what is not asked for is not read.

    Args:
        path: `pathlib.Path`.
    """

    def __init__(self, path):
        with pa.memory_map(str(path)) as source:
            batches = pa.ipc.open_file(source)
            (self._batch,) = (
                batches.get_batch(number)
                for number in range(batches.num_record_batches)
            )

    @property
    def keys(self) -> np.ndarray:
        """The keys of the rows, `uint64` of shape `(rows, 2)`."""
        content = self._batch.column(KEY).buffers()[1]
        return np.frombuffer(content, "uint64").reshape(-1, 2)

    def column(self, name):
        """Returns a function from a row's number to its bytes of an entry."""
        _, starts, content = self._batch.column(name).buffers()
        starts = np.frombuffer(starts, "int64")
        content = np.frombuffer(content, "uint8")
        return lambda row: content[starts[row] : starts[row + 1]]
