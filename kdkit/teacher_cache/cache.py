"""A teacher's outputs, run once and then read."""

import functools
import pathlib
import time
from collections.abc import Callable
from collections.abc import Iterable

import keras
import numpy as np

from kdkit.data import CacheableDataset
from kdkit.data import for_any_shape
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.io.disk import describe as describe_problem
from kdkit.io.disk import disk_problem
from kdkit.io.disk import writing
from kdkit.io.files import rename
from kdkit.io.machine import byte_size
from kdkit.io.machine import duration
from kdkit.losses import top_classes
from kdkit.taps import Entry
from kdkit.taps import describe
from kdkit.taps import reads_source
from kdkit.taps import sizes
from kdkit.taps import tapped
from kdkit.teacher_cache.index import Index
from kdkit.teacher_cache.index import check_room
from kdkit.teacher_cache.index import find_missing
from kdkit.teacher_cache.index import find_places
from kdkit.teacher_cache.index import part_of_cache
from kdkit.teacher_cache.index import size_of_other_parts
from kdkit.teacher_cache.reading import CachedOutputs
from kdkit.teacher_cache.shards import Error
from kdkit.teacher_cache.shards import Shard
from kdkit.teacher_cache.shards import check_precision
from kdkit.teacher_cache.shards import cut
from kdkit.teacher_cache.shards import pack
from kdkit.teacher_cache.shards import packed_size
from kdkit.teacher_cache.shards import row_bytes
from kdkit.teacher_cache.shards import row_keys
from kdkit.teacher_cache.shards import sequence_keys
from kdkit.teacher_cache.shards import write_shard

SECONDS_BETWEEN_LINES = 15


class TeacherCache:
    """What a teacher says of rows, kept on disk by their content.

    Rows are known by their tokens, not by their place, so that any order,
    selection and padding of them finds what was kept. Only what is missing is
    run.

    Args:
        directory: string or path. Made if needed.
        teacher: `keras.Model`, or an exported file in its place, as
            `kdkit.export.open_file` returns it, which gives logits alone.
        fingerprint: dict of strings and numbers. What decides the outputs: the
            content of the teacher's files above all.
        precision: string. `"fp32"`, `"bf16"` or `"int8"`. Defaults to
            `"fp32"`.
        announce: callable of a line about what is done. Defaults to `print`.
        part: tuple of ints i, n or `None`. Of n processes that share the rows
            this is i, from 0: it fills a directory within the other with its
            part, and reads nothing. A cache without a part takes in what is
            there of them. Defaults to `None`.

    Raises:
        UsageError: (a `ValueError`) if the directory holds a cache of
            something else, with what differs.
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
        check_precision(precision)
        self.directory = pathlib.Path(directory)
        if part is not None:
            self.directory = part_of_cache(directory, part)
        self._part = part
        self.precision = precision
        # Traced once for train, dev and all that follow.
        self._run = functools.cache(functools.partial(make_run, teacher))
        # A file gives the logits of tasks, which have few classes.
        self._num_classes = (
            (describe(teacher).num_classes or 0)
            if isinstance(teacher, keras.Model)
            else 0
        )
        self._announce = announce
        self._fingerprint = {**fingerprint, "precision": precision}
        self._index = Index(self.directory, self._fingerprint)
        self._whole = self._index
        # What is there already is no work for a part.
        self._known = [self._index]
        if part is not None:
            self._whole = Index(pathlib.Path(directory), self._fingerprint)
            self._known.append(self._whole)
        for index in self._known:
            damaged = index.drop_damaged()
            if damaged:
                announce(
                    f"{index.directory}: {len(damaged)} damaged files left "
                    "out, what they held is run again."
                )

    def outputs(
        self,
        encoded: CacheableDataset,
        entries: Iterable[Entry],
        beside: Iterable[Entry] = (),
    ) -> CachedOutputs:
        """Returns what reads the outputs for batches of rows.

        What is not there yet is run and written first.

        Args:
            encoded: `kdkit.data.EncodedExamples`, or `kdkit.data.PackedRows`
                or `PairRows` of text.
            entries: iterable of `Entry`.
            beside: iterable of `Entry`. What will be asked for later, of these
                rows: where the teacher is run at all, it is written too, so
                that the teacher is not run again for it. Defaults to nothing.

        Raises:
            UsageError: if an exported file is asked for more than logits, or an
                encoder-decoder for what its encoder gives.
            RunError: if the disk has too little room.
        """
        entries, beside = _asked(entries, beside)
        keys = {False: sequence_keys(encoded), True: row_keys(encoded)}
        with self._index.filling():
            self._take_parts()
            self._fill(encoded, entries, keys, beside)
            if self._part is not None:
                return CachedOutputs({}, {}, [], self.precision, encoded)
            # One reading: another process may drop files it finds damaged.
            index = self._index.read()
            places = find_places(self._index, index["shards"], entries, keys)
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
        beside: Iterable[Entry] = (),
    ) -> int:
        """Returns about how many bytes `outputs` will write.

        Of a part, they are those of all parts.

        Args:
            encoded, entries, beside: as for `outputs`.
        """
        entries, beside = _asked(entries, beside)
        keys = {False: sequence_keys(encoded), True: row_keys(encoded)}
        with self._index.filling():
            self._take_parts()
            _, size = self._plan(encoded, entries, keys, beside)
        return size

    def take_parts(self) -> None:
        """Takes in what other processes wrote of their parts of the rows."""
        with self._index.filling():
            self._take_parts()

    def relative_error(self, name: str) -> float:
        """Returns how far what was kept is from what the teacher said.

        The root of the squared differences over that of the numbers, of all
        that there is of an entry.
        """
        known = self._index.read()["entries"].get(name)
        if known is None:
            return 0.0  # of a part without rows
        squares = known["squares"]
        return (known["squared_errors"] / squares) ** 0.5 if squares else 0.0

    def describe(self) -> dict:
        """Returns the index: entries with their errors, files with rows."""
        return self._index.read()

    @property
    def agreement(self) -> dict | None:
        """How far an exported file agrees with its teacher, if measured.

        The parts of a cache know it together.
        """
        return self._whole.read().get("agreement")

    def keep_agreement(self, agreement: dict) -> None:
        """Writes into the index how far a file agrees with its teacher.

        Args:
            agreement: dict of strings and numbers, as JSON has them.
        """
        self._whole.note("agreement", agreement)

    def _take_parts(self):
        for directory in sorted(self.directory.glob("part_*_of_*")):
            if directory.is_symlink():
                continue  # to what is no part of this cache
            index = Index(directory, self._fingerprint)
            with index.filling():
                index.drop_damaged()
                shards = index.read()["shards"]
                for shard in shards:
                    entries = index.take_out(shard)
                    file = self.directory / shard["file"]
                    with writing(file):
                        rename(directory / shard["file"], file)
                    self._index.add(shard, entries)
            # The directory stays: a process may be about to go on in it.
            if shards:
                self._announce(f"{directory}: taken in.")

    def _plan(self, encoded, entries, keys, beside):
        """The pass over rows of which something is missing, `None` without any.

        And how much there must be room for: of a part that of all parts, which
        may be filled at the same time and come together in the end.
        """
        missing = functools.partial(
            find_missing, self._known, encoded, keys, entries, beside
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
            others = size_of_other_parts(whole, self._part)
            size = max(size, size * len(of_all) // len(numbers) - others)
        return filling, size

    def _fill(self, encoded, entries, keys, beside):
        """Runs the teacher over the rows of which something is missing."""
        filling, size = self._plan(encoded, entries, keys, beside)
        if filling is None:
            self._announce(
                f"{self.directory}: the teacher's outputs for all "
                f"{len(encoded)} rows are there."
            )
            return
        check_room(self.directory, size)
        self._announce(
            f"{self.directory}: running the teacher over {filling.num_rows} "
            f"rows, {byte_size(filling.size)}."
        )
        try:
            self._write(filling, keys, encoded.sequence_length)
        except (OSError, RunError) as error:
            number = disk_problem(error)
            if number is None:
                raise
            kept = (
                "What is there is kept; the same command goes on with the rest."
            )
            raise RunError(
                describe_problem(self.directory, number, kept)
            ) from error

    def _write(self, filling, keys, sequence_length):
        started, told, done = time.monotonic(), time.monotonic(), 0
        for shard, known in filling.write(self.directory, keys):
            shard["sequence_length"] = sequence_length
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


def _asked(entries, beside):
    """Entries in their order, and what is asked for beside them."""
    entries = tuple(sorted(set(entries)))
    beside = tuple(sorted(set(beside) - set(entries)))
    others = [
        entry.name for entry in (*entries, *beside) if reads_source(entry.tap)
    ]
    if others:
        raise UsageError(
            "Of pairs, what the decoder gives is kept. Received: "
            f"{', '.join(others)}, of what the encoder reads. Run the teacher "
            "beside the student for these."
        )
    return entries, beside


SHARD_BYTES = 64_000_000
SHARD_ROWS = 65_536
LOGITS = "logits"


def output_shapes(run, encoded: CacheableDataset, entries) -> dict:
    """Returns the shape of each entry for one row, by running a short one.

    Args:
        run: callable, as `make_run` returns it.
        encoded: `kdkit.data.CacheableDataset`.
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
        encoded: `kdkit.data.CacheableDataset`.
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
