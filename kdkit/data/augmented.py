"""Stores labelled and augmented examples, encoded, on disk."""

import array
import contextlib
import dataclasses
import itertools
import json
import pathlib

import numpy as np

from kdkit.data.encoding import EncodedExamples, encoded_steps
from kdkit.data.tables import Examples, at, column_place, require_width
from kdkit.data.unlabeled import normalized, normalized_rows
from kdkit.errors import UsageError
from kdkit.io.files import (
    digest,
    fits_own_digest,
    staged,
    with_own_digest,
    write_text,
)
from kdkit.io.reading import numbered_lines

INDEX = "index.json"
COLUMNS = {
    "token_ids": "int32", "segment_ids": "int8", "lengths": "int32",
    "sources": "int32",
}  # fmt: skip
MAPPED = ("token_ids", "segment_ids")  # other columns: a number per example


@dataclasses.dataclass(frozen=True, eq=False)
class AugmentedExamples:
    """Labelled examples, followed by the augmented ones.

    Args:
        encoded: `EncodedExamples`: the labelled examples, then the augmented
            ones with the labels of their sources. Token ids are mapped from a
            file.
        sources: `int32` array of shape `(num_augmented,)`: the number of the
            labelled example that each augmented one was made from.
        num_left_out: int. Augmented examples left out because dev or test
            contains them.
    """

    encoded: EncodedExamples
    sources: np.ndarray
    num_left_out: int

    @property
    def num_labeled(self) -> int:
        """The number of examples that are not augmented."""
        return len(self.encoded) - len(self.sources)

    def rows_of_epoch(self, seed: int, epoch: int, per_row: int | None = None):
        """Returns the numbers of the examples of an epoch.

        Args:
            seed: int. Seed of the run.
            epoch: int. From 0.
            per_row: int or `None`. Augmented examples of each labelled one,
                different ones in every epoch; all of them if there are fewer.
                Defaults to `None`, all of them.
        """
        rows = np.arange(len(self.encoded))
        if per_row is None:
            return rows
        generator = np.random.default_rng([seed, epoch, 2])
        order = np.lexsort((generator.random(len(self.sources)), self.sources))
        sources = self.sources[order]
        # The number of earlier examples with the same source, for each one.
        place = np.arange(len(order)) - np.searchsorted(sources, sources)
        chosen = np.sort(order[place < per_row])
        return np.concatenate(
            [rows[: self.num_labeled], self.num_labeled + chosen]
        )

    def num_rows_of_epoch(self, per_row: int | None = None) -> int:
        """Returns the number of examples in an epoch."""
        return len(self.rows_of_epoch(0, 0, per_row))


def store_augmented(
    examples: Examples,
    file,
    tokenizer,
    sequence_length: int,
    directory,
    row_numbers: np.ndarray | None = None,
    known: tuple[Examples, ...] = (),
) -> AugmentedExamples:
    """Encodes labelled and augmented examples, or opens the encoded ones.

    Writes tokens to disk batch by batch, with only a few numbers per example in
    memory.

    Args:
        examples: `Examples` with labels, all that the file was made from.
        file: path of a tab-separated file with a header, as
            `kdkit.augmentation.write_augmented` makes it: `source_row`, and
            the texts as the last columns.
        tokenizer, sequence_length: as in `encode`.
        directory: `pathlib.Path`. The folder for the tokens.
        row_numbers: int array, or `None`. The labelled examples to train on;
            augmented examples from other sources are skipped. Defaults to
            `None`, all examples.
        known: tuple of `Examples`, dev and test. Augmented examples with the
            same texts are left out.

    Raises:
        UsageError: as `read_copies`.
    """
    directory = pathlib.Path(directory)
    if row_numbers is None:
        row_numbers = np.arange(len(examples))
    chosen = examples.take(row_numbers)
    made_of = (
        digest(pathlib.Path(file)) if pathlib.Path(file).exists() else None
    )
    if not _is_stored(directory, made_of, len(chosen)):
        copies = _Copies(file, examples, row_numbers, known)
        _store(
            itertools.chain(zip(*chosen.texts, strict=True), copies),
            len(examples.texts),
            tokenizer,
            sequence_length,
            directory,
            copies,
            {"file": made_of, "num_labeled": len(chosen)},
        )
    index = json.loads((directory / INDEX).read_text())
    columns = _read_columns(directory)
    sources = columns.pop("sources")
    encoded = EncodedExamples(
        **columns,
        labels=np.concatenate([chosen.labels, chosen.labels[sources]]),
        sequence_length=sequence_length,
        num_truncated=index["num_truncated"],
        pad_token_id=tokenizer.pad_token_id,
    )
    return AugmentedExamples(encoded, sources, index["num_left_out"])


class _Copies:
    """The augmented examples to train on, counted as they are read."""

    def __init__(self, file, examples, row_numbers, known):
        self._file = file
        self._num_rows = len(examples)
        self._num_texts = len(examples.texts)
        self._places = {
            int(number): place for place, number in enumerate(row_numbers)
        }
        self._known = normalized_rows(known)
        self.sources = array.array("i")
        self.num_left_out = 0

    def __iter__(self):
        copies = read_copies(self._file, self._num_texts, self._num_rows)
        for source, texts in copies:
            if source not in self._places:
                continue
            if normalized(texts) in self._known:
                self.num_left_out += 1
                continue
            self.sources.append(self._places[source])
            yield texts


def _is_stored(directory, made_of, num_labeled):
    """Whether the examples of this file, or of any file, are stored."""
    try:
        index = json.loads((directory / INDEX).read_text())
        return (
            fits_own_digest(index)
            and index["num_labeled"] == num_labeled
            and made_of in (None, index["file"])
            and index["sha256"] == _digests(directory)
        )
    except (OSError, ValueError):  # damaged, so write again
        return False


def _digests(directory):
    """The checksums of the columns by name."""
    return {name: digest(directory / name) for name in COLUMNS}


def _read_columns(directory):
    """The columns. Columns with a number per token are mapped from files."""
    return {
        name: np.memmap(directory / name, dtype=dtype, mode="r")
        if name in MAPPED
        else np.fromfile(directory / name, dtype=dtype)
        for name, dtype in COLUMNS.items()
    }


def _store(
    rows, num_texts, tokenizer, sequence_length, directory, copies, made_of
):
    """Writes the columns, then the index: an index means success."""
    num_truncated = 0
    with contextlib.ExitStack() as stack:
        paths = {
            name: stack.enter_context(staged(directory / name))
            for name in COLUMNS
        }
        files = {
            name: stack.enter_context(open(path, "wb"))
            for name, path in paths.items()
        }
        for step in encoded_steps(rows, num_texts, tokenizer, sequence_length):
            num_truncated += int(step["truncated"].sum())
            for name in ("token_ids", "segment_ids", "lengths"):
                files[name].write(step[name].astype(COLUMNS[name]).tobytes())
        files["sources"].write(np.array(copies.sources, "int32").tobytes())
    index = {
        **made_of,
        "num_truncated": num_truncated,
        "num_left_out": copies.num_left_out,
        "sha256": _digests(directory),
    }
    write_text(directory / INDEX, json.dumps(with_own_digest(index)))


SOURCE_ROW = "source_row"


def count_copies(file) -> int:
    """Counts the augmented examples in a file.

    Args:
        file: path, as `store_augmented` takes it.
    """
    return sum(1 for _ in numbered_lines(file)) - 1


def read_copies(file, num_texts: int, num_rows: int):
    """Yields the source and the texts of every augmented example in a file.

    Args:
        file: path, as `store_augmented` takes it.
        num_texts: int. 1 for sentences, 2 for pairs.
        num_rows: int. The number of the task's examples, the possible sources.

    Raises:
        UsageError: for columns of another number of texts, and with file and
            line for another number of columns and for a source that is not a
            row of the task.
    """
    lines = numbered_lines(file)
    _, header = next(lines)
    headings = header.split("\t")
    first = len(headings) - num_texts
    place = column_place(file, headings, SOURCE_ROW)
    if place >= first:
        raise UsageError(
            f"{file}: expected {SOURCE_ROW} before {num_texts} column(s) of "
            f"text. Received: {header!r}."
        )
    for number, line in lines:
        cells = line.split("\t")
        require_width(file, number, cells, len(headings))
        with at(file, f"line {number}"):
            source = int(cells[place])
            if not 0 <= source < num_rows:
                raise UsageError(
                    f"expected a {SOURCE_ROW} below {num_rows}, the rows of "
                    f"the task. Received: {source}."
                )
        yield source, tuple(cells[first:])
