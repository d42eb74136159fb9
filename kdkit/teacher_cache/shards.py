"""Files of a cache: Arrow tables, written once, read where they are needed."""

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

from kdkit.data import CacheableDataset
from kdkit.data import rows_within
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.io.files import digest
from kdkit.io.files import staged
from kdkit.models.heads import EXCLUDED
from kdkit.taps import sizes

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


KEY_BYTES = 16
# Every stage, teacher and split of a run asks for the same ones again.
_kept = weakref.WeakKeyDictionary()


def sequence_keys(encoded: CacheableDataset) -> np.ndarray:
    """Returns a key for every sequence, of its tokens and its segments.

    They are made once, and kept as long as `encoded` is.

    Args:
        encoded: `kdkit.data.CacheableDataset`.

    Returns:
        `uint64` array of shape `(num_sequences, 2)`.
    """
    return _keys(encoded)[0]


def row_keys(encoded: CacheableDataset) -> np.ndarray:
    """Returns a key for every row: that of its sequence, or of all of them.

    They are kept as those of the sequences are.

    Returns:
        `uint64` array of shape `(num_rows, 2)`.
    """
    return _keys(encoded)[1]


def _keys(encoded):
    """The keys of the sequences and of the rows."""
    if encoded not in _kept:
        of_sequences = _as_keys(
            _digest(*arrays) for arrays in encoded.contents()
        )
        of_rows = of_sequences
        if encoded.sequences_per_row > 1:
            rows = of_sequences.reshape(len(encoded), -1)
            of_rows = _as_keys(_digest(row) for row in rows)
        _kept[encoded] = of_sequences, of_rows
    return _kept[encoded]


def _digest(*arrays):
    content = hashlib.blake2b(digest_size=KEY_BYTES)
    for array in arrays:
        content.update(array)
    return content.digest()


def _as_keys(digests):
    return np.frombuffer(b"".join(digests), "uint64").reshape(-1, 2)


def find(wanted: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Returns where keys stand among others.

    Args:
        wanted: keys, as `row_keys` returns them.
        known: likewise.

    Returns:
        `int64` array, one number per wanted key; −1 for what is not there.
        Of several places it is the first.

    >>> known = np.array([[5, 1], [7, 1], [5, 2]], "uint64")
    >>> find(np.array([[5, 2], [5, 3], [7, 1]], "uint64"), known).tolist()
    [2, -1, 1]
    """
    found = np.full(len(wanted), -1, "int64")
    order = np.argsort(known[:, 0], kind="stable")
    ordered = known[order, 0]
    # Half a key tells nearly all of them apart: of one that is there a second
    # time, the next place is looked at.
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


# Bytes of a number, and of an array beside its numbers.
PRECISIONS = {"fp32": (4, 0), "bf16": (2, 0), "int8": (1, 4)}
LARGEST, LEFT_OUT = 127, -128  # int8


def check_precision(precision: str) -> None:
    """Checks that there is such a precision.

    Raises:
        UsageError: (a `ValueError`) if not.
    """
    if precision not in PRECISIONS:
        raise UsageError(
            f"A cache is kept as one of {sorted(PRECISIONS)}. Received: "
            f"{precision!r}."
        )


def pack(values: np.ndarray, precision: str, exact: int = 0) -> bytes:
    """Returns an array as bytes.

    As int8 it is scaled by its largest number, which stands before it. Logits
    of classes that are no candidates are not: beside them all others would be
    0. They are -128, and the scale is negative where there are any.

    Args:
        values: `float32` array.
        precision: string.
        exact: int. So many numbers at the end of the last axis stay as they
            are, and stand first. Defaults to `0`.
    """
    values = np.ascontiguousarray(values, "float32")
    if exact:
        return values[..., -exact:].tobytes() + pack(
            values[..., :-exact], precision
        )
    if precision == "fp32":
        return values.tobytes()
    if precision == "bf16":
        return values.astype(ml_dtypes.bfloat16).tobytes()
    left_out = _is_left_out(values)
    others = np.where(left_out, 0.0, values)
    scale = np.float32(max(np.abs(others).max(initial=0.0), 1e-30) / LARGEST)
    numbers = np.rint(others / scale).astype("int8")
    if left_out.any():
        numbers[left_out], scale = LEFT_OUT, -scale
    return scale.tobytes() + numbers.tobytes()


def _is_left_out(values):
    """Which numbers are logits of no candidates, also in fewer bits."""
    return (values < 0.9 * EXCLUDED) & np.isfinite(values)


def unpack(
    content: np.ndarray, precision: str, out: np.ndarray, exact: int = 0
) -> None:
    """Puts the numbers of an array, from its bytes, into an array.

    Args:
        content: `uint8` array.
        precision: string. As it was packed.
        out: `float32` array of the shape of what was packed.
        exact: int. As it was packed. Defaults to `0`.

    >>> out = np.empty(2, "float32")
    >>> content = np.frombuffer(pack(np.array([1.0, -0.5]), "int8"), "uint8")
    >>> unpack(content, "int8", out)
    >>> out.round(2).tolist()
    [1.0, -0.5]
    """
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
            out[numbers == LEFT_OUT] = EXCLUDED


def packed_size(shape: tuple[int, ...], precision: str, exact: int = 0) -> int:
    """Returns the bytes of an array as `pack` makes them.

    Args:
        shape: tuple of ints. Of the array.
        precision, exact: as in `pack`.
    """
    each, beside = PRECISIONS[precision]
    rounded = math.prod(shape)
    kept = rounded // shape[-1] * exact if exact else 0
    return (rounded - kept) * each + beside + 4 * kept


@dataclasses.dataclass
class Error:
    """How far packed numbers are from those that were packed.

    Args:
        largest: float. The largest difference.
        squared: float. The sum of squared differences.
        signal: float. The sum of squared numbers.
    """

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
        """Counts an array, but no logits of what is no candidate.

        Nor what is kept as it is, or is not finite.
        """
        if precision == "fp32":
            return
        found = np.empty(values.shape, "float32")
        unpack(np.frombuffer(content, "uint8"), precision, found, exact)
        if exact:
            found, values = found[..., :-exact], values[..., :-exact]
        counts = (
            ~_is_left_out(values) & np.isfinite(values) & np.isfinite(found)
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
    """Returns the bytes of what a teacher says of a row, as float32.

    Args:
        shapes: dict from `Entry` to the shape of one, `"length"` in it.
        length: int. Tokens of each sequence of the row.
        sequences_per_row: int.
        num_classes: int. Of logits of which only the first classes are kept,
            how many there are at one time. Defaults to `0`.
    """

    def numbers(entry, shape):
        if entry.top_k and num_classes:
            shape = (*shape[:-1], num_classes)
        return math.prod(sizes(shape, length)) * (
            1 if entry.is_of_rows else sequences_per_row
        )

    return 4 * sum(numbers(entry, shape) for entry, shape in shapes.items())


def cut(
    rows: np.ndarray,
    lengths: np.ndarray,
    keys: np.ndarray,
    bytes_of: Callable[[int], int],
) -> list[np.ndarray]:
    """Returns batches of rows of similar lengths, the longest first.

    The last bits of what a teacher says of a row depend on the length that it
    is padded to, on how many rows are beside it and on its place among them:
    kernels add up in another order for another shape, and compute otherwise
    what is left over at the end of a thread's share. So the rows stand in an
    order of their own, and all batches but the last are full: take some
    batches away, as those that are written already, and the other rows are cut
    into the same batches as before.

    Args:
        rows: int array. The numbers of the rows.
        lengths: int array. Tokens of every row that there is.
        keys: their keys, as `row_keys` returns them.
        bytes_of: callable from a length to the bytes of a row of that length.
            A batch has 64 rows, or fewer so that they are 256 MB at most.

    >>> lengths, keys = np.array([3, 9, 5]), np.zeros((3, 2), "uint64")
    >>> cut(np.arange(3), lengths, keys, lambda length: length)
    [array([1, 2, 0])]
    """
    rows = rows[np.lexsort((keys[rows, 1], keys[rows, 0], -lengths[rows]))]
    batches = []
    while len(rows):
        longest = int(lengths[rows[0]])
        count = rows_within(bytes_of(longest), BATCH_ROWS)
        batches.append(rows[:count])
        rows = rows[count:]
    return batches
