"""The teacher cache: runs a teacher once, then reads its outputs from disk."""

import functools
import pathlib
import time
from collections.abc import Callable, Iterable

import numpy as np

from kdkit.data import CacheableDataset, for_any_shape
from kdkit.errors import UsageError
from kdkit.io.files import rename
from kdkit.io.machine import byte_size, duration
from kdkit.losses import top_classes
from kdkit.taps import Entry, describe, reads_source, sizes, tapped
from kdkit.teacher_cache.index import (
    Index,
    find_missing,
    find_rows,
    other_parts_size,
    part_directory,
    require_disk_space,
)
from kdkit.teacher_cache.reading import CachedOutputs
from kdkit.teacher_cache.shards import (
    Error,
    Shard,
    cut,
    pack,
    packed_size,
    row_bytes,
    row_keys,
    sequence_keys,
    write_shard,
)

SECONDS_BETWEEN_LINES = 15


class TeacherCache:
    """A teacher's outputs on disk, keyed by the content of the examples.

    An example's key depends on its tokens, not on its position, so cached
    outputs are found in any order, selection or padding of the examples. The
    teacher only runs on examples that are missing.

    Args:
        directory: string or path. Created if needed.
        teacher: `keras.Model`.
        fingerprint: dict of strings and numbers. Everything that the outputs
            depend on, above all the content of the teacher's files.
        precision: string. `"fp32"`, `"bf16"` or `"int8"`. Defaults to
            `"fp32"`.
        announce: callable of a line about progress. Defaults to `print`.
        part: tuple of ints i, n or `None`. Process i, from 0, of n processes
            that share the examples. It writes its part into a subdirectory and
            reads no outputs. A cache without a part merges the finished
            subdirectories. Defaults to `None`.

    Raises:
        UsageError: (a `ValueError`) if the directory contains a cache with
            another fingerprint; the error lists the differences.
    """

    def __init__(
        self,
        directory,
        teacher,
        fingerprint: dict,
        precision: str = "fp32",
        announce: Callable[[str], None] = print,
        part: tuple[int, int] | None = None,
    ):
        self.directory = pathlib.Path(directory)
        if part is not None:
            self.directory = part_directory(directory, part)
        self._part = part
        self.precision = precision
        # Traced once, for train, dev and all later data.
        self._run = functools.cache(functools.partial(make_run, teacher))
        self._num_classes = describe(teacher).num_classes or 0
        self._announce = announce
        self._fingerprint = {**fingerprint, "precision": precision}
        self._index = Index(self.directory, self._fingerprint)
        self._whole = self._index
        # A part does not repeat outputs that the whole cache contains.
        self._known = [self._index]
        if part is not None:
            self._whole = Index(pathlib.Path(directory), self._fingerprint)
            self._known.append(self._whole)
        for index in self._known:
            damaged = index.drop_damaged()
            if damaged:
                announce(
                    f"{index.directory}: {len(damaged)} damaged files removed, "
                    "their examples are run again."
                )

    def outputs(
        self,
        encoded: CacheableDataset,
        entries: Iterable[Entry],
        additional: Iterable[Entry] = (),
    ) -> CachedOutputs:
        """Returns an object that reads the outputs for batches of examples.

        Missing outputs are computed and written first.

        Args:
            encoded: `kdkit.data.EncodedExamples`, or `kdkit.data.PackedRows`
                or `PairRows` of text.
            entries: iterable of `Entry`.
            additional: iterable of `Entry`. Outputs for these examples that are
                needed later. If the teacher runs, it also writes these, so that
                it need not run again. Defaults to none.

        Raises:
            UsageError: if an encoder-decoder should return the outputs of its
                encoder.
            RunError: if the disk is too small.
        """
        entries, additional = _asked(entries, additional)
        keys = {False: sequence_keys(encoded), True: row_keys(encoded)}
        with self._index.filling():
            self._merge_parts()
            self._fill(encoded, entries, keys, additional)
            if self._part is not None:
                return CachedOutputs({}, {}, [], self.precision, encoded)
            # Read once: another process may remove damaged files.
            index = self._index.read()
            places = find_rows(self._index, index["shards"], entries, keys)
            shards = [
                Shard(self.directory / shard["file"])
                for shard in index["shards"]
            ]
        return CachedOutputs(
            {
                entry: tuple(index["entries"][entry.name]["shape"])
                for entry in entries
            },
            places,
            shards,
            self.precision,
            encoded,
        )

    def needed(
        self,
        encoded: CacheableDataset,
        entries: Iterable[Entry],
        additional: Iterable[Entry] = (),
    ) -> int:
        """Returns approximately how many bytes `outputs` will write.

        For a part, returns the bytes of all parts.

        Args:
            encoded, entries, additional: as for `outputs`.
        """
        entries, additional = _asked(entries, additional)
        keys = {False: sequence_keys(encoded), True: row_keys(encoded)}
        with self._index.filling():
            self._merge_parts()
            _, size = self._plan(encoded, entries, keys, additional)
        return size

    def relative_error(self, name: str) -> float:
        """Returns the relative error of an entry's stored numbers.

        The root of the sum of squared differences over the root of the sum of
        squares, for all stored examples.
        """
        known = self._index.read()["entries"].get(name)
        if known is None:
            return 0.0  # a part without examples
        squares = known["squares"]
        return (known["squared_errors"] / squares) ** 0.5 if squares else 0.0

    def describe(self) -> dict:
        """Returns the index: entries with errors, files with row counts."""
        return self._index.read()

    def _merge_parts(self):
        for directory in sorted(self.directory.glob("part_*_of_*")):
            if directory.is_symlink():
                continue  # a link points to another cache
            index = Index(directory, self._fingerprint)
            with index.filling():
                index.drop_damaged()
                shards = index.read()["shards"]
                for shard in shards:
                    entries = index.remove_shard(shard)
                    file = self.directory / shard["file"]
                    rename(directory / shard["file"], file)
                    self._index.add(shard, entries)
            # The directory stays: a process may still write into it.
            if shards:
                self._announce(f"{directory}: merged.")

    def _plan(self, encoded, entries, keys, additional):
        """Returns the pass over incomplete examples, and the bytes it needs."""
        missing = functools.partial(
            find_missing, self._known, encoded, keys, entries, additional
        )
        numbers, incomplete = missing(self._part)
        if not len(numbers):
            return None, 0
        run = self._run(tuple(incomplete))
        shapes = output_shapes(run, encoded, incomplete)
        bytes_of = functools.partial(
            row_bytes,
            shapes,
            sequences_per_row=encoded.sequences_per_row,
            num_classes=self._num_classes,
        )
        batches = cut(numbers, encoded.row_lengths, keys[True], bytes_of)
        filling = Filling(run, encoded, batches, shapes, self.precision)
        size = filling.size
        if self._part is not None:
            of_all, _ = missing()
            whole = self._whole.directory
            others = other_parts_size(whole, self._part)
            size = max(size, size * len(of_all) // len(numbers) - others)
        return filling, size

    def _fill(self, encoded, entries, keys, additional):
        """Runs the teacher on all examples with missing outputs."""
        filling, size = self._plan(encoded, entries, keys, additional)
        if filling is None:
            self._announce(
                f"{self.directory}: the teacher's outputs for all "
                f"{len(encoded)} examples are cached."
            )
            return
        require_disk_space(self.directory, size)
        self._announce(
            f"{self.directory}: running the teacher on {filling.num_rows} "
            f"examples, {byte_size(filling.size)}."
        )
        started, told, done = time.monotonic(), time.monotonic(), 0
        for shard, known in filling.write(self.directory, keys):
            shard["sequence_length"] = encoded.sequence_length
            self._index.add(shard, known)
            done += shard["bytes"]  # keys and headers included
            now = time.monotonic()
            if now - told > SECONDS_BETWEEN_LINES and done < filling.size:
                told = now
                left = (now - started) * (filling.size / done - 1)
                self._announce(
                    f"{self.directory}: {byte_size(done)} of "
                    f"{byte_size(filling.size)}, {duration(left)} left."
                )


def _asked(entries, additional):
    """Returns sorted entries, and the additional ones that differ."""
    entries = tuple(sorted(set(entries)))
    additional = tuple(sorted(set(additional) - set(entries)))
    others = [
        entry.name
        for entry in (*entries, *additional)
        if reads_source(entry.tap)
    ]
    if others:
        raise UsageError(
            "Only a decoder's outputs can be cached for pairs. Received: "
            f"{', '.join(others)}, which need the encoder."
        )
    return entries, additional


SHARD_BYTES = 64_000_000
SHARD_ROWS = 65_536
LOGITS = "logits"


def output_shapes(run, encoded: CacheableDataset, entries) -> dict:
    """The shape of each entry for one example, by running a short one."""
    row = int(encoded.row_lengths.argmin())
    length = int(encoded.row_lengths[row])
    taps = run(encoded.inputs(np.array([row]), length))
    return {
        entry: entry.shape(np.asarray(taps[entry.name])) for entry in entries
    }


class Filling:
    """A pass of a teacher over examples."""

    def __init__(self, run, encoded, batches, shapes, precision):
        self._run = run
        self._encoded = encoded
        self._batches = batches
        self._shapes = shapes
        self._precision = precision

    @property
    def num_rows(self) -> int:
        """How many examples the teacher will run on."""
        return sum(map(len, self._batches))

    @property
    def size(self) -> int:
        """How many bytes will be written, without keys."""
        per_row = self._encoded.sequences_per_row
        rows = np.concatenate(self._batches)
        lengths = self._encoded.lengths.reshape(-1, per_row)[rows]
        total = 0
        for length, count in zip(
            *np.unique(lengths, return_counts=True), strict=True
        ):
            for entry, shape in self._shapes.items():
                share = 1 / per_row if entry.is_per_example else 1
                size = packed_size(
                    sizes(shape, int(length)),
                    self._precision,
                    entry.num_exact(shape),
                )
                total += count * share * size
        return int(total)

    def write(self, directory, keys):
        """Writes the files one after the other."""
        encoded = self._encoded
        groups = {}
        for entry in self._shapes:
            per_example = entry.is_per_example and encoded.sequences_per_row > 1
            groups.setdefault(per_example, []).append(entry)
        row_lengths = encoded.row_lengths
        pending = {
            per_example: _Pending(
                keys[per_example],
                row_lengths if per_example else encoded.lengths,
                {entry: self._shapes[entry] for entry in entries},
                self._precision,
            )
            for per_example, entries in groups.items()
        }
        for rows in self._batches:
            inputs = encoded.inputs(rows, int(row_lengths[rows].max()))
            taps = {
                name: np.asarray(tensor, "float32")
                for name, tensor in self._run(inputs).items()
            }
            sequences = encoded.sequences_of(rows)
            for per_example, shard in pending.items():
                shard.add(taps, rows if per_example else sequences)
            # Written files survive a stop. They contain whole batches, so that
            # `cut` finds the other batches again, and all entries of their
            # examples, so that none of these is run again for the rest.
            if any(shard.is_full for shard in pending.values()):
                for shard in pending.values():
                    yield shard.write(directory)
        for shard in pending.values():
            if shard.rows:
                yield shard.write(directory)


class _Pending:
    """The examples of the next file."""

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
        """Adds the tensors of a batch."""
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
    """Returns a function from inputs to tensors by entry's name."""
    run = tapped(teacher, sorted({entry.tap for entry in entries}))

    def outputs(inputs):
        taps = run(inputs, training=False)
        return {entry.name: _stored_tensor(entry, taps) for entry in entries}

    return for_any_shape(outputs)


def _stored_tensor(entry, taps):
    """Returns the stored part of a tensor: all of it, or the top classes."""
    tensor = entry.read(taps)
    if entry.top_k:
        tensor = top_classes(tensor, entry.top_k, entry.temperature)
    return tensor
