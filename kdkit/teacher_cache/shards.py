"""Files of a cache: Arrow tables, written once, read where they are needed."""

import pathlib
import uuid

import numpy as np
import pyarrow as pa

from kdkit.errors import RunError
from kdkit.errors import shortened
from kdkit.files import digest
from kdkit.files import staged
from kdkit.teacher_cache.keys import KEY_BYTES

KEY = "key"
LARGE = pa.large_binary()


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
        arrays[name] = pa.array(values, LARGE)
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
        self.path = path
        try:
            with pa.memory_map(str(path)) as source:
                batches = pa.ipc.open_file(source)
                (self._batch,) = (
                    batches.get_batch(number)
                    for number in range(batches.num_record_batches)
                )
            self._batch.validate(full=True)  # that offsets lie within
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._damaged(error) from error
        for field in self._batch.schema:
            kind = pa.binary(KEY_BYTES) if field.name == KEY else LARGE
            if field.type != kind or self._batch.column(field.name).null_count:
                raise self._damaged(
                    f"a column {shortened(field.name)} of {kind}"
                )
        if self._batch.num_rows and KEY not in self._batch.schema.names:
            raise self._damaged(f"no column {KEY!r}")

    def _damaged(self, what):
        return RunError(
            f"{self.path} is damaged or no file of a cache: {what}. Remove it: "
            "what it held is run again."
        )

    @property
    def keys(self) -> np.ndarray:
        """The keys of the rows, `uint64` of shape `(rows, 2)`."""
        content = self._batch.column(KEY).buffers()[1]
        return np.frombuffer(content, "uint64").reshape(-1, 2)

    def column(self, name):
        """Returns a function from a row's number to its bytes of an entry."""
        if name not in self._batch.schema.names:
            raise self._damaged(f"no column {shortened(name)}")
        _, starts, content = self._batch.column(name).buffers()
        starts = np.frombuffer(starts, "int64")
        content = np.frombuffer(content, "uint8")
        return lambda row: content[starts[row] : starts[row + 1]]
