"""The teacher cache: runs a teacher once, then reads its outputs from disk."""

import contextlib
import functools
import json
import pathlib
import shutil
import time
from collections.abc import Callable, Iterable

import numpy as np

from kdkit.data import SequenceDataset
from kdkit.data.stream import for_any_shape, rows_within
from kdkit.errors import RunError, UsageError
from kdkit.io.files import digest_of_text
from kdkit.io.machine import byte_size, duration
from kdkit.losses import top_classes
from kdkit.taps import TEACHER_OUTPUTS, Entry, describe, reads_source, tapped
from kdkit.taps.names import is_layer_tap
from kdkit.teacher_cache.files import Plan, StoredTensors, relative_error

FORMAT = 3  # of the files; increased if they or their order change
BATCH_ROWS = 64
SECONDS_BETWEEN_LINES = 15
HEADROOM = 1.1  # required free disk space over the bytes to write


class TeacherCache:
    """A teacher's outputs on disk, in a folder for each content.

    `DIRECTORY/TEACHER/EXAMPLES/ENTRY/SEGMENT.npy`: `TEACHER` is a checksum of
    the fingerprint and the precision, `EXAMPLES` of all examples' tokens in
    their order. Other contents have other folders, so any number of teachers
    and data sets share a directory. A file is named when it is whole. Several
    processes may fill a cache: the same file always gets the same content.

    Args:
        directory: string or path. Created if needed.
        teacher: `keras.Model`.
        fingerprint: dict of strings and numbers. Everything that the outputs
            depend on, above all the content of the teacher's files.
        precision: string. `"fp32"`, `"bf16"` or `"int8"`. Defaults to
            `"fp32"`.
        announce: callable of a line about progress. Defaults to `print`.
        part: tuple of ints i, n or `None`. Process i, from 0, of n processes
            that share the work: it computes every n-th segment. Defaults to
            `None`, all segments.
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
        content = {**fingerprint, "format": FORMAT, "precision": precision}
        self._folder = self.directory / digest_of_text(json.dumps(content))
        self._teacher = teacher
        # Traced once, for train, dev and all later data.
        self._traced = functools.cache(
            lambda *entries: for_any_shape(_outputs_of(teacher, entries))
        )
        self._num_classes = describe(teacher).num_classes or 0
        self._announce = lambda line: announce(f"{self.directory}: {line}")
        self._part, self._parts = part or (0, 1)
        self._plan = functools.cache(
            lambda rows: Plan(rows, self._folder, precision)
        )

    def outputs(
        self,
        encoded: SequenceDataset,
        entries: Iterable[Entry],
        additional: Iterable[Entry] = (),
    ) -> "CachedOutputs":
        """Returns an object that reads the outputs for batches of examples.

        Missing outputs are computed and written first.

        Args:
            encoded: `kdkit.data.EncodedExamples`, or `kdkit.data.PackedRows`
                or `PairRows` of text.
            entries: iterable of `Entry`.
            additional: iterable of `Entry`. Outputs for these examples that are
                needed later, for which the teacher need not run again. Defaults
                to none.

        Raises:
            UsageError: if an encoder-decoder should return the outputs of its
                encoder.
            RunError: if the disk is too small.
        """
        entries = sorted({*entries})
        plan = self._plan(encoded)
        stored = self._find(plan, sorted({*entries, *additional}))
        self._fill(plan, stored)
        return CachedOutputs([one for one in stored if one.entry in entries])

    def relative_error(self, name: str) -> float:
        """Returns the relative error of an entry's stored numbers.

        The root of the sum of squared differences over the root of the sum of
        squares, for all examples that the directory has of this teacher.
        """
        return relative_error(self._folder, name)

    def _find(self, plan, entries):
        """Returns the `StoredTensors` of each entry."""
        layers = [one.name for one in entries if is_layer_tap(one.tap)]
        if layers:
            raise UsageError(
                "Outputs of layers by name cannot be cached, because the axis "
                f"of their tokens is not known. Received: {layers}."
            )
        others = [entry.name for entry in entries if reads_source(entry.tap)]
        if others:
            raise UsageError(
                "Only a decoder's outputs can be cached for pairs. Received: "
                f"{', '.join(others)}, which need the encoder."
            )
        new = [entry for entry in entries if entry not in plan.tensors]
        if new:
            shortest = plan.segments[-1][-1:]
            length = int(plan.examples.row_lengths[shortest[0]])
            inputs = plan.examples.inputs(shortest, length)
            outputs = _outputs_of(self._teacher, new)(inputs)
        for entry in new:
            shape = entry.shape(np.asarray(outputs[entry.name]))
            plan.tensors[entry] = StoredTensors(plan, entry, shape)
        return [plan.tensors[entry] for entry in entries]

    def _fill(self, plan, stored):
        """Runs the teacher on all segments of this part that lack a file."""
        segments = plan.segments
        missing = {
            number: size
            for number in range(len(segments))
            if (size := sum(one.missing_size(number) for one in stored))
        }
        self._require_space(sum(missing.values()))
        mine = [one for one in missing if one % self._parts == self._part]
        if not mine:
            which = "this part's" if missing else f"all {len(plan.places)}"
            self._announce(
                f"the teacher's outputs for {which} examples are cached."
            )
            return
        size, done = sum(missing[number] for number in mine), 0
        count = sum(len(segments[number]) for number in mine)
        total = byte_size(size)
        self._announce(f"running the teacher on {count} examples, {total}.")
        started = told = time.monotonic()
        for number in mine:
            self._write(plan, stored, number)
            done, now = done + missing[number], time.monotonic()
            if now - told > SECONDS_BETWEEN_LINES and done < size:
                told, left = now, duration((now - started) * (size / done - 1))
                self._announce(f"{byte_size(done)} of {total}, {left} left.")

    def _require_space(self, size):
        """Raises an error if outputs do not fit on the disk, before a write."""
        self.directory.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.directory).free
        if size * HEADROOM > free:
            raise RunError(
                f"The teacher's outputs need {byte_size(size)} in "
                f"{self.directory}, where {byte_size(free)} are free."
            )

    def _write(self, plan, stored, number):
        """Writes the files that a segment lacks."""
        # A pass that goes on computes all entries again, not only those whose
        # file is missing: a graph with other outputs may give other bits.
        run = self._traced(*(one.entry for one in stored))
        is_cut = any(one.entry.top_k for one in stored)
        rows, examples = plan.segments[number], plan.examples
        with contextlib.ExitStack() as files:
            adding = {
                one.entry.name: files.enter_context(one.writing(number))
                for one in stored
                if one.missing_size(number)
            }
            while adding and len(rows):
                length = int(examples.row_lengths[rows[0]])  # the longest
                size = sum(one.row_bytes(length) for one in stored)
                size += is_cut * 4 * length * self._num_classes
                batch = rows[: rows_within(size, BATCH_ROWS)]
                rows = rows[len(batch) :]
                outputs = run(examples.inputs(batch, length))
                for name, add in adding.items():
                    add(np.asarray(outputs[name], "float32"))


def _outputs_of(teacher, entries):
    """Returns a function from inputs to tensors by entry's name."""
    run = tapped(teacher, sorted({entry.tap for entry in entries}))

    def outputs(inputs):
        taps = run(inputs, training=False)
        found = {entry.name: entry.read(taps) for entry in entries}
        for entry in entries:
            if entry.top_k:
                classes = entry.top_k, entry.temperature
                found[entry.name] = top_classes(found[entry.name], *classes)
        return found

    return outputs


class CachedOutputs:
    """Reads a teacher's outputs for the examples of a batch."""

    def __init__(self, stored: list[StoredTensors]):
        self._stored = stored

    def __call__(self, rows: np.ndarray, padded_length: int) -> dict:
        """Returns the tensors of a batch by name; padding is 0."""
        return {
            one.entry.name: one(rows, padded_length) for one in self._stored
        }


class OutputsOfTeachers:
    """The outputs of all teachers, as the feature that a `Distiller` reads.

    Args:
        outputs: sequence of `CachedOutputs`, one per teacher, in their order.

    Example:

    ```python
    outputs = OutputsOfTeachers(
        [cache.outputs(rows, entries)]
    )
    stream = kdkit.data.BatchStream(
        rows, kdkit.data.Buckets(32), seed=0, features=outputs
    )
    distiller.fit(stream.training(), steps_per_epoch=stream.steps_per_epoch)
    ```
    """

    def __init__(self, outputs):
        self._outputs = tuple(outputs)

    def __call__(self, rows: np.ndarray, padded_length: int) -> dict:
        """Returns the feature with the results of all `CachedOutputs`."""
        return {
            TEACHER_OUTPUTS: tuple(
                one(rows, padded_length) for one in self._outputs
            )
        }
