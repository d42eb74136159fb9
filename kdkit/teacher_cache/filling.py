"""Running a teacher over rows, and writing what it says."""

import keras
import numpy as np

from kdkit.data import ReadableRows
from kdkit.data import for_any_shape
from kdkit.errors import UsageError
from kdkit.losses import top_classes
from kdkit.taps import sizes
from kdkit.taps import tapped
from kdkit.teacher_cache.precision import Error
from kdkit.teacher_cache.precision import pack
from kdkit.teacher_cache.precision import packed_size
from kdkit.teacher_cache.shards import write_shard

SHARD_BYTES = 64_000_000
SHARD_ROWS = 65_536
LOGITS = "logits"


def output_shapes(run, encoded: ReadableRows, entries) -> dict:
    """Returns the shape of each entry for one row, by running a short one.

    Args:
        run: callable, as `make_run` returns it.
        encoded: `kdkit.data.ReadableRows`.
        entries: sequence of `kdkit.taps.Entry`.
    """
    row = int(encoded.row_lengths.argmin())
    length = int(encoded.row_lengths[row])
    taps = run(encoded.inputs(np.array([row]), length))
    return {
        entry: entry.shape(np.asarray(taps[entry.name])) for entry in entries
    }


class Filling:
    """A pass of a teacher over rows.

    Args:
        run: callable, as `make_run` returns it.
        encoded: `kdkit.data.ReadableRows`.
        batches: list of int arrays. The numbers of the rows to run together.
        shapes: dict from `Entry` to shape.
        precision: string.
    """

    def __init__(self, run, encoded, batches, shapes, precision):
        self._run = run
        self._encoded = encoded
        self._batches = batches
        self._shapes = shapes
        self._precision = precision

    @property
    def num_rows(self) -> int:
        """Rows that the teacher will be run over."""
        return sum(map(len, self._batches))

    @property
    def size(self) -> int:
        """Bytes that will be written, but for keys."""
        per_row = self._encoded.sequences_per_row
        rows = np.concatenate(self._batches)
        lengths = self._encoded.lengths.reshape(-1, per_row)[rows]
        total = 0
        for length, count in zip(
            *np.unique(lengths, return_counts=True), strict=True
        ):
            for entry, shape in self._shapes.items():
                share = 1 / per_row if entry.is_of_rows else 1
                size = packed_size(
                    sizes(shape, int(length)),
                    self._precision,
                    entry.num_exact(shape),
                )
                total += count * share * size
        return int(total)

    def write(self, directory, keys):
        """Writes file after file.

        Entries of sequences and of rows stand in files of their own where a
        row has several sequences.

        Args:
            directory: `pathlib.Path`.
            keys: dict from whether they are of rows to all keys.

        Yields:
            Tuples of what `write_shard` returned and a dict from the names of
            its entries to their shapes and errors.
        """
        encoded = self._encoded
        groups = {}
        for entry in self._shapes:
            of_rows = entry.is_of_rows and encoded.sequences_per_row > 1
            groups.setdefault(of_rows, []).append(entry)
        row_lengths = encoded.row_lengths
        pending = {
            of_rows: _Pending(
                keys[of_rows],
                row_lengths if of_rows else encoded.lengths,
                {entry: self._shapes[entry] for entry in entries},
                self._precision,
            )
            for of_rows, entries in groups.items()
        }
        for rows in self._batches:
            inputs = encoded.inputs(rows, int(row_lengths[rows].max()))
            taps = {
                name: np.asarray(tensor, "float32")
                for name, tensor in self._run(inputs).items()
            }
            sequences = encoded.sequences_of(rows)
            for of_rows, shard in pending.items():
                shard.add(taps, rows if of_rows else sequences)
            # What is written is kept when the run is stopped. Files hold whole
            # batches, so that `cut` finds the others again, and all entries
            # of their rows, so that none of them is run again for the rest.
            if any(shard.is_full for shard in pending.values()):
                for shard in pending.values():
                    yield shard.write(directory)
        for shard in pending.values():
            if shard.rows:
                yield shard.write(directory)


class _Pending:
    """Rows of the next file."""

    def __init__(self, keys, lengths, shapes, precision):
        self._all_keys = keys
        self._lengths = lengths
        self._shapes = shapes
        self._precision = precision
        self._clear()

    def _clear(self):
        self.size = 0
        self._keys = []
        self._columns = {entry.name: [] for entry in self._shapes}
        self._errors = {entry.name: Error() for entry in self._shapes}

    @property
    def rows(self) -> int:
        return len(self._keys)

    @property
    def is_full(self) -> bool:
        return self.size >= SHARD_BYTES or self.rows >= SHARD_ROWS

    def add(self, taps, numbers):
        """Takes the tensors of a batch."""
        for place, number in enumerate(numbers):
            self._keys.append(self._all_keys[number].tobytes())
            for entry, shape in self._shapes.items():
                real = sizes(shape, int(self._lengths[number]))
                values = taps[entry.name][place][tuple(map(slice, real))]
                exact = entry.num_exact(shape)
                content = pack(values, self._precision, exact)
                self._errors[entry.name].add(
                    values, content, self._precision, exact
                )
                self._columns[entry.name].append(content)
                self.size += len(content)

    def write(self, directory):
        shard = write_shard(directory, self._keys, self._columns)
        known = {
            entry.name: {
                "shape": list(shape),
                "largest_error": self._errors[entry.name].largest,
                "squared_errors": self._errors[entry.name].squared,
                "squares": self._errors[entry.name].signal,
            }
            for entry, shape in self._shapes.items()
        }
        self._clear()
        return shard, known


def make_run(teacher, entries):
    """Returns a function from inputs to tensors by entry's name.

    Args:
        teacher: `keras.Model`, whose function is compiled, or an exported file
            as `kdkit.export.open_file` returns it.
        entries: iterable of `kdkit.taps.Entry`.

    Raises:
        UsageError: (a `ValueError`) if a file is asked for more than logits.
    """
    if not isinstance(teacher, keras.Model):
        return _run_of_file(teacher, entries)
    run = tapped(teacher, sorted({entry.tap for entry in entries}))

    def outputs(inputs):
        taps = run(inputs, training=False)
        return {entry.name: _kept(entry, taps) for entry in entries}

    return for_any_shape(outputs)


def _kept(entry, taps):
    """What is kept of a tensor: all of it, or the first classes."""
    tensor = entry.read(taps)
    if entry.top_k:
        tensor = top_classes(tensor, entry.top_k, entry.temperature)
    return tensor


def _run_of_file(file, entries):
    others = [entry.name for entry in entries if entry.tap != LOGITS]
    if others:
        raise UsageError(
            f"{file.path} gives logits alone. Received: {', '.join(others)}. "
            "Run the teacher itself for these."
        )

    def outputs(inputs):
        taps = {LOGITS: file(inputs)}
        return {entry.name: _kept(entry, taps) for entry in entries}

    return outputs
