"""Running a teacher over rows, and writing what it says."""

import math

import keras
import numpy as np

from kdkit.data import EncodedExamples
from kdkit.data import evaluation_batches
from kdkit.data import for_any_shape
from kdkit.errors import UsageError
from kdkit.taps import sizes
from kdkit.taps import tapped
from kdkit.teacher_cache.precision import Error
from kdkit.teacher_cache.precision import pack
from kdkit.teacher_cache.precision import packed_size
from kdkit.teacher_cache.shards import write_shard

BATCH_SIZE = 64
NUM_BUCKETS = 8
SHARD_BYTES = 64_000_000
SHARD_ROWS = 65_536
LOGITS = "logits"


def output_shapes(run, encoded: EncodedExamples, entries) -> dict:
    """Returns the shape of each entry for one row, by running a short one.

    Args:
        run: callable, as `make_run` returns it.
        encoded: `kdkit.data.EncodedExamples`.
        entries: sequence of `kdkit.taps.Entry`.
    """
    row = take(encoded, np.array([int(encoded.row_lengths.argmin())]))
    batches, _ = evaluation_batches(row, 1)
    (batch,) = list(batches)
    inputs = batch[0] if isinstance(batch, tuple) else batch
    taps = run(inputs)
    return {
        entry: entry.shape(np.asarray(taps[entry.name])) for entry in entries
    }


def take(encoded: EncodedExamples, rows: np.ndarray) -> EncodedExamples:
    """Returns some of the rows, without their labels.

    Args:
        encoded: `kdkit.data.EncodedExamples`.
        rows: int array. The numbers of the rows.
    """
    per_row = encoded.sequences_per_row
    sequences = (rows[:, np.newaxis] * per_row + np.arange(per_row)).reshape(-1)
    ends = np.cumsum(encoded.lengths, dtype="int64")
    lengths = encoded.lengths[sequences]
    starts = ends[sequences] - lengths
    places = np.concatenate(
        [
            np.arange(start, start + length)
            for start, length in zip(starts, lengths, strict=True)
        ]
    )
    return EncodedExamples(
        token_ids=encoded.token_ids[places],
        segment_ids=encoded.segment_ids[places],
        lengths=lengths,
        labels=None,
        sequence_length=encoded.sequence_length,
        num_truncated=0,
        pad_token_id=encoded.pad_token_id,
        sequences_per_row=per_row,
    )


class Filling:
    """A pass of a teacher over rows.

    Args:
        run: callable, as `make_run` returns it.
        encoded: `kdkit.data.EncodedExamples`.
        numbers: int array. The rows to run.
        shapes: dict from `Entry` to shape.
        precision: string.
    """

    def __init__(self, run, encoded, numbers, shapes, precision):
        self._run = run
        self._encoded = encoded
        self._numbers = numbers
        self._shapes = shapes
        self._precision = precision

    @property
    def size(self) -> int:
        """Bytes that will be written, but for keys."""
        per_row = self._encoded.sequences_per_row
        lengths = self._encoded.lengths.reshape(-1, per_row)[self._numbers]
        total = 0
        for length, count in zip(
            *np.unique(lengths, return_counts=True), strict=True
        ):
            for entry, shape in self._shapes.items():
                share = 1 / per_row if entry.is_of_rows else 1
                numbers = math.prod(sizes(shape, int(length)))
                total += count * share * packed_size(numbers, self._precision)
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
        several = self._encoded.sequences_per_row > 1
        groups = {}
        for entry in self._shapes:
            of_rows = entry.is_of_rows and several
            groups.setdefault(of_rows, []).append(entry)
        pending = {
            of_rows: _Pending(entries, self._shapes, self._precision)
            for of_rows, entries in groups.items()
        }
        # In steps, so that what is begun is kept when the run is stopped.
        for start in range(0, len(self._numbers), SHARD_ROWS):
            numbers = self._numbers[start : start + SHARD_ROWS]
            for taps, rows, lengths in self._outputs(numbers):
                for of_rows, shard in pending.items():
                    shard.add(taps, rows, lengths, keys[of_rows], self._encoded)
                    if shard.size >= SHARD_BYTES:
                        yield shard.write(directory)
        for shard in pending.values():
            if shard.size:
                yield shard.write(directory)

    def _outputs(self, numbers):
        """Yields the teacher's tensors of a batch, its rows and lengths."""
        chosen = take(self._encoded, numbers)
        batches, order = evaluation_batches(
            chosen, BATCH_SIZE, num_buckets=NUM_BUCKETS
        )
        done = 0
        for inputs in batches:
            count = len(inputs["token_ids"]) // chosen.sequences_per_row
            rows = order[done : done + count]
            done += count
            taps = {
                name: np.asarray(tensor, "float32")
                for name, tensor in self._run(inputs).items()
            }
            yield taps, numbers[rows], inputs["padding_mask"].numpy().sum(1)


class _Pending:
    """Rows of the next file."""

    def __init__(self, entries, shapes, precision):
        self._entries = entries
        self._shapes = shapes
        self._precision = precision
        self._clear()

    def _clear(self):
        self.size = 0
        self._keys = []
        self._columns = {entry.name: [] for entry in self._entries}
        self._errors = {entry.name: Error() for entry in self._entries}

    def add(self, taps, rows, lengths, keys, encoded):
        """Takes the tensors of a batch."""
        per_row = encoded.sequences_per_row
        of_rows = len(keys) == len(encoded)
        numbers = rows
        if not of_rows:
            numbers = rows[:, np.newaxis] * per_row + np.arange(per_row)
            numbers = numbers.reshape(-1)
        if of_rows and per_row > 1:
            lengths = lengths.reshape(-1, per_row).max(axis=1)
        for place, number in enumerate(numbers):
            self._keys.append(keys[number].tobytes())
            for entry in self._entries:
                values = taps[entry.name][place]
                shape = sizes(self._shapes[entry], int(lengths[place]))
                values = values[tuple(map(slice, shape))]
                content = pack(values, self._precision)
                self._errors[entry.name].add(values, content, self._precision)
                self._columns[entry.name].append(content)
                self.size += len(content)

    def write(self, directory):
        shard = write_shard(directory, self._keys, self._columns)
        known = {
            entry.name: {
                "shape": list(self._shapes[entry]),
                "largest_error": self._errors[entry.name].largest,
                "squared_errors": self._errors[entry.name].squared,
                "squares": self._errors[entry.name].signal,
            }
            for entry in self._entries
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
        return {entry.name: entry.read(taps) for entry in entries}

    return for_any_shape(outputs)


def _run_of_file(file, entries):
    others = [entry.name for entry in entries if entry.tap != LOGITS]
    if others:
        raise UsageError(
            f"{file.path} gives logits alone. Received: {', '.join(others)}. "
            "Run the teacher itself for these."
        )
    return lambda inputs: {LOGITS: file(inputs)}
