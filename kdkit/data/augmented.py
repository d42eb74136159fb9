"""Stores labelled and augmented examples, encoded, on disk.

A file of augmented examples begins with a line `# {...}`, which contains what
the examples were made from, and a checksum of the other lines. These are
tab-separated: headings with `source_row` and then the texts, and a line for
each example. Files from other programs may have no first line.
"""

import dataclasses
import hashlib
import json
import pathlib

import numpy as np

from kdkit.data.encoding import EncodedExamples
from kdkit.data.selection import normalized, normalized_rows, rows_digest
from kdkit.data.store import store_encoded
from kdkit.data.tables import Examples, at, tab_rows, table_of_rows
from kdkit.errors import UsageError
from kdkit.io.files import change_in_words, digest
from kdkit.io.reading import numbered_lines

SOURCE_ROW = "source_row"
NOTE = "# "  # begins the first line


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


def store_augmented(
    examples: Examples,
    file,
    tokenizer,
    sequence_length: int,
    directory,
    row_numbers: np.ndarray,
    known: tuple[Examples, ...] = (),
) -> AugmentedExamples:
    """Encodes labelled and augmented examples, or opens the encoded ones.

    Writes tokens to disk batch by batch, with only a few numbers per example in
    memory.
    """
    require_made_from(file, examples)
    labeled = examples.take(row_numbers)

    def read(about):
        places = {number: place for place, number in enumerate(row_numbers)}
        known_rows = normalized_rows(known)
        yield from enumerate(zip(*labeled.texts, strict=True))
        about["num_left_out"] = 0
        copies = read_copies(file, len(examples.texts), len(examples))
        for source, texts in copies:
            if source not in places:
                continue
            if normalized(texts) in known_rows:
                about["num_left_out"] += 1
                continue
            yield places[source], texts

    encoded, sources, about = store_encoded(
        read,
        tokenizer,
        sequence_length,
        directory,
        f"{len(labeled)} examples and {digest(pathlib.Path(file))}",
    )
    return AugmentedExamples(
        dataclasses.replace(encoded, labels=labeled.labels[sources]),
        sources[len(labeled) :],
        about["num_left_out"],
    )


def require_made_from(
    file, examples: Examples, settings: dict | None = None
) -> None:
    """Requires that a file was made from these texts, if it contains that.

    With `settings`, it also requires these, and that the file contains them.
    """
    with open(file, "rb") as opened:
        first = opened.readline().decode(errors="replace")
        content = hashlib.file_digest(opened, "sha256").hexdigest()
    if not first.startswith(NOTE):
        if settings:
            raise UsageError(
                f"{file} does not contain how it was made. Without options for "
                "augmentation it is used."
            )
        return
    note = json.loads(first.removeprefix(NOTE))
    expected = {**(settings or {}), "texts": rows_digest(examples.texts)}
    made_from = note["made_from"]
    changes = [
        change_in_words(name, made_from.get(name), value)
        for name, value in sorted(expected.items())
        if made_from.get(name) != value
    ]
    if changes:
        raise UsageError(
            f"{file} was made with other settings: {'; '.join(changes)}."
        )
    if note["content"] != content:
        raise UsageError(
            f"{file} has changed since it was made. Make it again."
        )


def read_copies(file, num_texts: int, num_rows: int):
    """Yields the source and the texts of every augmented example in a file."""
    table = _table(file)
    columns = table.headings[-num_texts:]
    if SOURCE_ROW in columns:
        raise UsageError(
            f"{file}: expected {SOURCE_ROW} before {num_texts} column(s) of "
            f"text. Received: {', '.join(table.headings)}."
        )
    for place, (source, *texts) in table.cells((SOURCE_ROW, *columns)):
        with at(file, place):
            number = int(source)
            if not 0 <= number < num_rows:
                raise UsageError(
                    f"expected a {SOURCE_ROW} below {num_rows}, the rows of "
                    f"the task. Received: {number}."
                )
        yield number, tuple(texts)


def _table(file):
    """The table of a file, without the line that may be before it."""
    lines = numbered_lines(file)
    rows = (line for line in lines if line[0] > 1 or line[1][:2] != NOTE)
    return table_of_rows(file, tab_rows(rows), "")
