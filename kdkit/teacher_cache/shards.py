"""Files of a cache: Arrow tables, written once, read where they are needed."""

import dataclasses
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
            names = self._batch.schema.names
            if len(set(names)) < len(names):
                raise ValueError("a column twice")
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._damaged(error) from error
        if KEY not in names:
            raise self._damaged(f"no column {KEY!r}")
        for name in names:
            kind = pa.binary(KEY_BYTES) if name == KEY else LARGE
            # The schema first: there are kinds of columns that do not open.
            if (
                self._batch.schema.field(name).type != kind
                or self._batch.column(name).null_count
            ):
                raise self._damaged(
                    f"a column {shortened(name)} that is no {kind}"
                )

    def _damaged(self, what):
        return RunError(
            f"{self.path} is damaged or no file of a cache: {what}. Remove it: "
            "what it held is run again."
        )

    @property
    def keys(self) -> np.ndarray:
        """The keys of the rows, `uint64` of shape `(rows, 2)`."""
        rows = self._batch.num_rows
        if not rows:
            return np.empty((0, 2), "uint64")
        content = self._batch.column(KEY).buffers()[1]
        return np.frombuffer(content, "uint64", 2 * rows).reshape(-1, 2)

    def column(self, name) -> "Column":
        """Returns what it holds of an entry."""
        if name not in self._batch.schema.names:
            raise self._damaged(f"no column {shortened(name)}")
        _, starts, content = self._batch.column(name).buffers()
        rows = self._batch.num_rows
        return Column(
            np.frombuffer(starts, "int64", rows + 1)
            if rows
            else np.zeros(1, "int64"),
            np.frombuffer(content, "uint8"),
        )


@dataclasses.dataclass(frozen=True)
class Column:
    """The bytes of every row, one after the other.

    Args:
        starts: `int64` array of shape `(rows + 1,)`. Where the bytes of each
            row begin, and where the last ones end.
        content: `uint8` array.
    """

    starts: np.ndarray
    content: np.ndarray

    def __call__(self, row: int) -> np.ndarray:
        """Returns the bytes of a row."""
        return self.content[self.starts[row] : self.starts[row + 1]]
