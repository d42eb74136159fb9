"""A teacher's outputs, run once and then read."""

import functools
import os
import pathlib
import shutil
import time
from collections.abc import Callable
from collections.abc import Iterable

import keras
import numpy as np

from kdkit.data import ReadableRows
from kdkit.errors import RunError
from kdkit.files import describe as describe_problem
from kdkit.files import disk_problem
from kdkit.files import rename
from kdkit.files import writing
from kdkit.quantities import byte_size
from kdkit.quantities import duration
from kdkit.taps import Entry
from kdkit.taps import describe
from kdkit.teacher_cache.batches import cut
from kdkit.teacher_cache.batches import row_bytes
from kdkit.teacher_cache.filling import Filling
from kdkit.teacher_cache.filling import make_run
from kdkit.teacher_cache.filling import output_shapes
from kdkit.teacher_cache.index import Index
from kdkit.teacher_cache.keys import row_keys
from kdkit.teacher_cache.keys import sequence_keys
from kdkit.teacher_cache.places import find_places
from kdkit.teacher_cache.precision import check_precision
from kdkit.teacher_cache.reading import CachedOutputs
from kdkit.teacher_cache.shards import Shard

SECONDS_BETWEEN_LINES = 15
HEADROOM = 1.1  # of the free disk over what will be written


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
        at_once: int. How many parts are filled at the same time, for which
            there must be room together. Defaults to `1`.

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
        at_once: int = 1,
    ):
        check_precision(precision)
        self.directory = pathlib.Path(directory)
        if part is not None:
            self.directory /= f"part_{part[0] + 1}_of_{part[1]}"
        self._part = part
        self._at_once = at_once
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
        damaged = self._index.drop_damaged()
        if damaged:
            announce(
                f"{self.directory}: {len(damaged)} damaged files left out, "
                "what they held is run again."
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
            UsageError: if an exported file is asked for more than logits.
            RunError: if the disk has too little room.
        """
        entries = tuple(sorted(set(entries)))
        keys = {False: sequence_keys(encoded), True: row_keys(encoded)}
        with self._index.filling():
            self._take_parts()
            self._fill(encoded, entries, keys, set(beside) - set(entries))
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

    def _fill(self, encoded, entries, keys, beside):
        """Runs the teacher over the rows of which something is missing."""
        known = [
            find_places(
                index, index.read()["shards"], (*entries, *beside), keys
            )
            for index in self._known
        ]

        def absent_rows(entry):
            absent = np.all([places[entry][:, 0] < 0 for places in known], 0)
            if entry.is_of_rows:
                return absent
            return absent.reshape(-1, encoded.sequences_per_row).any(axis=1)

        absent = {entry: absent_rows(entry) for entry in (*entries, *beside)}
        missing = np.any([absent[entry] for entry in entries], axis=0)
        numbers = self._share(np.flatnonzero(missing), keys[True])
        if not len(numbers):
            self._announce(
                f"{self.directory}: the teacher's outputs for all "
                f"{len(encoded)} rows are there."
            )
            return
        incomplete = [
            entry
            for entry in (*entries, *sorted(beside))
            if absent[entry][numbers].any()
        ]
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
        self._check_room(filling.size * self._at_once)
        self._announce(
            f"{self.directory}: running the teacher over {len(numbers)} rows, "
            f"{byte_size(filling.size)}."
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

    def _share(self, numbers, keys):
        """Which of the missing rows are to be run here, each once."""
        if self._part is not None:
            which, count = self._part
            numbers = numbers[keys[numbers, 0] % count == which]
        _, first = np.unique(keys[numbers], axis=0, return_index=True)
        return numbers[first]

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

    def _check_room(self, size):
        free = shutil.disk_usage(self.directory).free
        if size * HEADROOM > free:
            raise RunError(
                f"The teacher's outputs need {byte_size(size)} in "
                f"{os.fspath(self.directory)}, where {byte_size(free)} "
                "are free. Use a smaller precision (bf16, int8), fewer rows, "
                "or another disk."
            )
