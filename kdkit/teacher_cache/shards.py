"""Cache files: Arrow tables, written once, of which only columns are read."""

import dataclasses
import hashlib
import math
import pathlib
import uuid
import weakref
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pyarrow as pa

from kdkit.data import CacheableDataset, rows_within
from kdkit.io.files import digest, staged
from kdkit.models.heads import EXCLUDED
from kdkit.taps import sizes

KEY = "key"
LARGE = pa.large_binary()


def write_shard(directory: pathlib.Path, keys: list, columns: dict) -> dict:
    """Writes a new file."""
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
    """An open cache file; only requested columns are read."""

    def __init__(self, path):
        with pa.memory_map(str(path)) as source:
            self._batch = pa.ipc.open_file(source).get_batch(0)

    @property
    def keys(self) -> np.ndarray:
        """The keys of the rows, `uint64` of shape `(rows, 2)`."""
        content = self._batch.column(KEY).buffers()[1]
        rows = self._batch.num_rows
        return np.frombuffer(content, "uint64", 2 * rows).reshape(-1, 2)

    def column(self, name) -> "Column":
        """Returns the column of an entry."""
        _, starts, content = self._batch.column(name).buffers()
        rows = self._batch.num_rows
        return Column(
            np.frombuffer(starts, "int64", rows + 1),
            np.frombuffer(content, "uint8"),
        )


@dataclasses.dataclass(frozen=True)
class Column:
    """The bytes of every row, concatenated."""

    starts: np.ndarray
    content: np.ndarray

    def __call__(self, row: int) -> np.ndarray:
        """Returns the bytes of a row."""
        return self.content[self.starts[row] : self.starts[row + 1]]


KEY_BYTES = 16
# Keys are computed once: every stage, teacher and split of a run needs them.
_kept = weakref.WeakKeyDictionary()


def sequence_keys(encoded: CacheableDataset) -> np.ndarray:
    """Returns a key for every sequence, from its tokens and segments.

    The keys are computed once and stored as long as `encoded` exists.

    Args:
        encoded: `kdkit.data.CacheableDataset`.

    Returns:
        `uint64` array of shape `(num_sequences, 2)`.
    """
    return _keys(encoded)[0]


def row_keys(encoded: CacheableDataset) -> np.ndarray:
    """Returns a key for every example, from its sequence or all its sequences.

    The keys are stored like those of the sequences.

    Returns:
        `uint64` array of shape `(num_rows, 2)`.
    """
    return _keys(encoded)[1]


def _keys(encoded):
    """Returns the keys of the sequences and of the examples."""
    if encoded not in _kept:
        by_sequence = _as_keys(
            _digest(*arrays) for arrays in encoded.contents()
        )
        by_example = by_sequence
        if encoded.sequences_per_row > 1:
            rows = by_sequence.reshape(len(encoded), -1)
            by_example = _as_keys(_digest(row) for row in rows)
        _kept[encoded] = by_sequence, by_example
    return _kept[encoded]


def _digest(*arrays):
    content = hashlib.blake2b(digest_size=KEY_BYTES)
    for array in arrays:
        content.update(array)
    return content.digest()


def _as_keys(digests):
    return np.frombuffer(b"".join(digests), "uint64").reshape(-1, 2)


def find(wanted: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Returns the indices of keys among other keys."""
    found = np.full(len(wanted), -1, "int64")
    order = np.argsort(known[:, 0], kind="stable")
    ordered = known[order, 0]
    # Half a key is nearly always unique. If it occurs a second time, the next
    # index is tried.
    left = np.arange(len(wanted))
    places = np.searchsorted(ordered, wanted[:, 0])
    while len(left):
        inside = places < len(known)
        left, places = left[inside], places[inside]
        same = ordered[places] == wanted[left, 0]
        left, places = left[same], places[same]
        here = known[order[places], 1] == wanted[left, 1]
        found[left[here]] = order[places[here]]
        left, places = left[~here], places[~here] + 1
    return found


# Bytes per number, and additional bytes per array.
PRECISIONS = {"fp32": (4, 0), "bf16": (2, 0), "int8": (1, 4)}
LARGEST, EXCLUDED_CODE = 127, -128  # int8


def pack(values: np.ndarray, precision: str, exact: int = 0) -> bytes:
    """Returns an array as bytes."""
    values = np.ascontiguousarray(values, "float32")
    if exact:
        return values[..., -exact:].tobytes() + pack(
            values[..., :-exact], precision
        )
    if precision == "fp32":
        return values.tobytes()
    if precision == "bf16":
        return values.astype(ml_dtypes.bfloat16).tobytes()
    left_out = _is_excluded(values)
    others = np.where(left_out, 0.0, values)
    scale = np.float32(max(np.abs(others).max(initial=0.0), 1e-30) / LARGEST)
    numbers = np.rint(others / scale).astype("int8")
    if left_out.any():
        numbers[left_out], scale = EXCLUDED_CODE, -scale
    return scale.tobytes() + numbers.tobytes()


def _is_excluded(values):
    """Returns which numbers are logits of excluded classes, even rounded."""
    return (values < 0.9 * EXCLUDED) & np.isfinite(values)


def unpack(
    content: np.ndarray, precision: str, out: np.ndarray, exact: int = 0
) -> None:
    """Writes the numbers of a packed array into an array."""
    if exact:
        kept = out[..., -exact:]
        unpack(content[: 4 * kept.size], "fp32", kept)
        unpack(content[4 * kept.size :], precision, out[..., :-exact])
    elif precision == "fp32":
        out[...] = content.view("float32").reshape(out.shape)
    elif precision == "bf16":
        out[...] = content.view(ml_dtypes.bfloat16).reshape(out.shape)
    else:
        numbers = content[4:].view("int8").reshape(out.shape)
        (scale,) = content[:4].view("float32")
        np.multiply(numbers, abs(scale), out=out)
        if scale < 0:
            out[numbers == EXCLUDED_CODE] = EXCLUDED


def packed_size(shape: tuple[int, ...], precision: str, exact: int = 0) -> int:
    """Returns the bytes of a packed array.

    Args:
        shape: tuple of ints. The array's shape.
        precision, exact: as in `pack`.
    """
    value_bytes, array_bytes = PRECISIONS[precision]
    rounded = math.prod(shape)
    kept = rounded // shape[-1] * exact if exact else 0
    return (rounded - kept) * value_bytes + array_bytes + 4 * kept


@dataclasses.dataclass
class Error:
    """The rounding error of packed numbers."""

    largest: float = 0.0
    squared: float = 0.0
    signal: float = 0.0

    def add(
        self,
        values: np.ndarray,
        content: bytes,
        precision: str,
        exact: int = 0,
    ) -> None:
        """Adds the errors of an array."""
        if precision == "fp32":
            return
        found = np.empty(values.shape, "float32")
        unpack(np.frombuffer(content, "uint8"), precision, found, exact)
        if exact:
            found, values = found[..., :-exact], values[..., :-exact]
        counts = (
            ~_is_excluded(values) & np.isfinite(values) & np.isfinite(found)
        )
        found, values = found[counts], values[counts]
        difference = np.abs(found - values)
        self.largest = max(self.largest, float(difference.max(initial=0.0)))
        self.squared += float(np.square(difference, dtype="float64").sum())
        self.signal += float(np.square(values, dtype="float64").sum())


BATCH_ROWS = 64


def row_bytes(
    shapes: dict, length: int, sequences_per_row: int, num_classes: int = 0
) -> int:
    """Returns the bytes of a teacher's outputs for an example, as float32."""

    def numbers(entry, shape):
        if entry.top_k and num_classes:
            shape = (*shape[:-1], num_classes)
        return math.prod(sizes(shape, length)) * (
            1 if entry.is_per_example else sequences_per_row
        )

    return 4 * sum(numbers(entry, shape) for entry, shape in shapes.items())


def cut(
    rows: np.ndarray,
    lengths: np.ndarray,
    keys: np.ndarray,
    bytes_of: Callable[[int], int],
) -> list[np.ndarray]:
    """Returns batches of examples with similar lengths, the longest first."""
    rows = rows[np.lexsort((keys[rows, 1], keys[rows, 0], -lengths[rows]))]
    batches = []
    while len(rows):
        longest = int(lengths[rows[0]])
        count = rows_within(bytes_of(longest), BATCH_ROWS)
        batches.append(rows[:count])
        rows = rows[count:]
    return batches
