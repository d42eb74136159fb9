"""The files of a cache: packed tensors, whose offsets follow from lengths."""

import contextlib
import functools
import hashlib
import itertools
import math
import os
import pathlib
import urllib.parse

import ml_dtypes
import numpy as np
import pyarrow as pa

from kdkit.io.files import staged
from kdkit.models.heads import EXCLUDED
from kdkit.taps import LENGTH, Entry, sizes

SEGMENT_ROWS = 512
HEADER = 128  # bytes, of each `.npy` file with one axis
TAIL = 16  # bytes after the tensors: the sums from `squares`
ALIGNMENT = 64  # bytes; TensorFlow copies arrays with another alignment
# The type of a file's numbers by precision. NumPy cannot load bfloat16.
PRECISIONS = {"fp32": "float32", "bf16": "uint16", "int8": "int8"}
LARGEST, EXCLUDED_CODE = 127, -128  # of int8, after a scale of four bytes


class Plan:
    """Where the outputs for a data set are, in a folder for its content.

    Attributes:
        examples: `kdkit.data.SequenceDataset`.
        precision: string.
        tensors: dict of `StoredTensors` by entry.
        folder: path. Its name is a checksum of all examples, in their order.
        segments: list of int arrays: the numbers of the different examples, the
            longest first. A file has the tensors of one segment.
        places: int array. Each example's place in all segments.
        lengths: int array of shape `(num_places, sequences_per_row)`.
    """

    def __init__(self, examples, folder: pathlib.Path, precision: str):
        self.examples, self.precision = examples, precision
        self.tensors = {}
        keys = list(_row_keys(examples))
        digest = hashlib.blake2b(b"".join(keys), digest_size=8)
        self.folder = folder / digest.hexdigest()
        _, first, same = np.unique(np.array(keys), True, True)
        order = np.argsort(-examples.row_lengths[first], kind="stable")
        rows = first[order]
        self.places = np.argsort(order)[same]
        self.lengths = examples.lengths.reshape(len(examples), -1)[rows]
        starts = range(SEGMENT_ROWS, len(rows), SEGMENT_ROWS)
        self.segments = np.split(rows, starts)


def _row_keys(rows):
    """Yields a checksum of the lengths and the content of every example."""
    contents = rows.contents()
    lengths = np.asarray(rows.lengths, "int64")
    for row in lengths.reshape(len(rows), -1):
        key = hashlib.blake2b(row, digest_size=16)
        for array in itertools.chain(*itertools.islice(contents, len(row))):
            key.update(array)
        yield key.digest()


class StoredTensors:
    """The tensors of one entry for a data set.

    A file has the packed tensors of a segment's examples one after the other,
    and the sums of their squares.
    """

    def __init__(self, plan: Plan, entry: Entry, shape: tuple):
        self.entry, self.shape = entry, shape
        self._folder = plan.folder / _folder_name(entry.name)
        self._packing = plan.precision, entry.num_exact(shape)
        self._places = plan.places
        lengths = plan.lengths
        if entry.is_per_example:
            lengths = lengths.max(axis=1, keepdims=True)
        self._per_row = lengths.shape[1]
        self._per_segment = SEGMENT_ROWS * self._per_row
        self._lengths = lengths.reshape(-1)
        # Where tensors begin if all files are joined; at last, where they end.
        distinct, which = np.unique(self._lengths, return_inverse=True)
        bytes_of = [
            packed_size(sizes(shape, length), *self._packing)
            for length in distinct.tolist()
        ]
        self._bounds = np.zeros(len(which) + 1, "int64")
        np.cumsum(np.array(bytes_of)[which], out=self._bounds[1:])
        is_long = [size == LENGTH for size in shape]
        self._long_axes = np.flatnonzero(is_long).tolist()
        self._open = functools.cache(self._map)

    def row_bytes(self, length: int) -> int:
        """Returns the bytes of one example's tensors, as float32."""
        return 4 * self._per_row * math.prod(sizes(self.shape, length))

    def _file(self, segment):
        return self._folder / f"{segment:05}.npy"

    def _size(self, segment):
        bounds = self._bounds[segment * self._per_segment :]
        bounds = bounds[: self._per_segment + 1]
        return int(bounds[-1] - bounds[0]) + TAIL

    def missing_size(self, segment: int) -> int:
        """Returns the bytes that a segment lacks: all or, if whole, none."""
        size = HEADER + self._size(segment)
        with contextlib.suppress(FileNotFoundError):
            if self._file(segment).stat().st_size == size:
                return 0
        return size

    @contextlib.contextmanager
    def writing(self, segment: int):
        """Yields a function that appends a batch's tensors to a new file."""
        lengths = iter(self._lengths[segment * self._per_segment :].tolist())
        word, sums = np.dtype(PRECISIONS[self._packing[0]]), np.zeros(2)
        count = self._size(segment) // word.itemsize
        header = {"descr": word.str, "fortran_order": False, "shape": (count,)}

        def add(batch):
            for one in batch:
                values = one[
                    tuple(map(slice, sizes(self.shape, next(lengths))))
                ]
                content = pack(values, *self._packing)
                sums[:] += squares(values, content, *self._packing)
                file.write(content)

        with staged(self._file(segment)) as path, open(path, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            yield add
            file.write(sums.tobytes())

    def _map(self, segment):
        """Returns the bytes of a segment from the disk."""
        # A map of NumPy would keep a file descriptor.
        with pa.memory_map(str(self._file(segment))) as file:
            return np.frombuffer(file.read_buffer(), "uint8", offset=HEADER)

    def __call__(self, rows: np.ndarray, padded_length: int) -> np.ndarray:
        """Returns the tensor of a batch; padding is 0."""
        numbers = self._places[rows, np.newaxis] * self._per_row
        numbers = (numbers + np.arange(self._per_row)).reshape(-1)
        segments = numbers // self._per_segment
        starts, ends = self._bounds[[numbers, numbers + 1]]
        first = self._bounds[segments * self._per_segment]
        lengths = self._lengths[numbers]
        places = np.stack([segments, starts - first, ends - first, lengths], 1)
        batch = _aligned((len(numbers), *sizes(self.shape, padded_length)))
        for one, place in zip(batch, places.tolist(), strict=True):
            segment, start, end, length = place
            real = tuple(map(slice, sizes(self.shape, length)))
            unpack(self._open(segment)[start:end], one[real], *self._packing)
            for axis in self._long_axes:
                one[(*real[:axis], slice(length, None))] = 0
        return batch


def _aligned(shape):
    """Returns an uninitialized float32 array that TensorFlow need not copy."""
    size = 4 * math.prod(shape)
    memory = np.empty(size + ALIGNMENT, "uint8")
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view("float32").reshape(shape)


def _folder_name(entry_name):
    return urllib.parse.quote(entry_name, safe="@")  # names of layers vary


def relative_error(folder: pathlib.Path, entry_name: str) -> float:
    """Returns the error of an entry's tensors for all data sets in a folder."""
    sums = np.zeros(2)
    for path in sorted(folder.glob(f"*/{_folder_name(entry_name)}/*.npy")):
        with open(path, "rb") as file:
            file.seek(-TAIL, os.SEEK_END)
            sums += np.frombuffer(file.read())
    errors, numbers = sums
    return float((errors / numbers) ** 0.5) if numbers else 0.0


def pack(values: np.ndarray, precision: str, exact: int = 0) -> bytes:
    """Returns an array as bytes; the last `exact` numbers are not rounded."""
    values = np.ascontiguousarray(values, "float32")
    if exact:
        rounded = pack(values[..., :-exact], precision)
        return values[..., -exact:].tobytes() + rounded
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


def unpack(content, out: np.ndarray, precision: str, exact: int = 0):
    """Writes the numbers of a packed array, `uint8`, into an array."""
    if exact:
        kept = out[..., -exact:]
        unpack(content[: 4 * kept.size], kept, "fp32")
        unpack(content[4 * kept.size :], out[..., :-exact], precision)
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
    """Returns the bytes of a packed array."""
    numbers = math.prod(shape)
    kept = numbers // shape[-1] * exact if exact else 0
    size = (numbers - kept) * np.dtype(PRECISIONS[precision]).itemsize
    return 4 * kept + size + 4 * (precision == "int8")


def squares(values, content: bytes, precision: str, exact: int = 0):
    """Returns the sums of squares of rounding errors and of rounded numbers."""
    if precision == "fp32":
        return np.zeros(2)
    found = np.empty(values.shape, "float32")
    unpack(np.frombuffer(content, "uint8"), found, precision, exact)
    if exact:
        found, values = found[..., :-exact], values[..., :-exact]
    counts = np.isfinite(values) & np.isfinite(found) & ~_is_excluded(values)
    values = values[counts]
    both = found[counts] - values, values
    return np.array([np.square(one, dtype="float64").sum() for one in both])
