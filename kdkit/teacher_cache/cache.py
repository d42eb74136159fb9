"""A teacher's outputs, run once and then read."""

import functools
import pathlib
import time
from collections.abc import Callable
from collections.abc import Iterable

import keras

from kdkit.data import ReadableRows
from kdkit.disk import describe as describe_problem
from kdkit.disk import disk_problem
from kdkit.disk import writing
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.files import rename
from kdkit.quantities import byte_size
from kdkit.quantities import duration
from kdkit.taps import Entry
from kdkit.taps import describe
from kdkit.taps import reads_source
from kdkit.teacher_cache.batches import cut
from kdkit.teacher_cache.batches import row_bytes
from kdkit.teacher_cache.filling import Filling
from kdkit.teacher_cache.filling import make_run
from kdkit.teacher_cache.filling import output_shapes
from kdkit.teacher_cache.index import Index
from kdkit.teacher_cache.keys import row_keys
from kdkit.teacher_cache.keys import sequence_keys
from kdkit.teacher_cache.places import find_missing
from kdkit.teacher_cache.places import find_places
from kdkit.teacher_cache.precision import check_precision
from kdkit.teacher_cache.reading import CachedOutputs
from kdkit.teacher_cache.room import check_room
from kdkit.teacher_cache.room import part_of_cache
from kdkit.teacher_cache.room import size_of_other_parts
from kdkit.teacher_cache.shards import Shard

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
        encoded: ReadableRows,
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
        encoded: ReadableRows,
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
