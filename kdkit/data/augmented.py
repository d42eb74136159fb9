"""Stores labelled and augmented examples, encoded, on disk.

A file of augmented examples begins with a line `# {...}`, which contains what
the examples were made from, and a checksum of the lines after it. These are
tab-separated: headings with `source_row` and then the texts, and a line for
each example. Files from other programs may have no first line.
"""

import dataclasses
import hashlib
import json

import numpy as np

from kdkit.data.encoding import EncodedExamples
from kdkit.data.selection import normalized, normalized_rows, rows_digest
from kdkit.data.store import store_encoded
from kdkit.data.tables import Examples, at, tab_rows, table_of_rows
from kdkit.errors import UsageError
from kdkit.io.files import change_in_words, content_digest
from kdkit.io.reading import numbered_lines

SOURCE_ROW = "source_row"
NOTE = "# "  # begins the first line


def rows_with_copies(sources: np.ndarray, num_labeled: int, per_row: int):
    """Returns a function from seed and epoch to the examples of an epoch.

    They are all labelled examples and `per_row` augmented ones of each,
    different ones in every epoch; all of them if there are fewer.
    """

    def rows(seed, epoch):
        generator = np.random.default_rng([seed, epoch, 2])
        order = np.lexsort((generator.random(len(sources)), sources))
        ordered = sources[order]
        # The number of earlier examples with the same source, for each one.
        place = np.arange(len(order)) - np.searchsorted(ordered, ordered)
        chosen = np.sort(order[place < per_row])
        return np.concatenate([np.arange(num_labeled), num_labeled + chosen])

    return rows


def store_augmented(
    examples: Examples,
    file,
    tokenizer,
    sequence_length: int,
    directory,
    row_numbers: np.ndarray,
    known: tuple[Examples, ...] = (),
) -> tuple[EncodedExamples, np.ndarray, int]:
    """Encodes labelled and augmented examples, or opens the encoded ones.

    Tokens are written to disk step by step. Labelled examples other than
    `row_numbers`, and examples made from them, are not encoded.

    Returns:
        Tuple of the labelled examples, followed by augmented ones with the
        labels of their sources; the number of the labelled example that each
        augmented one was made from; and how many were left out because `known`
        contains them.
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
            else:
                yield places[source], texts

    encoded, sources, about = store_encoded(
        read,
        tokenizer,
        sequence_length,
        directory,
    )
    encoded = dataclasses.replace(encoded, labels=labeled.labels[sources])
    return encoded, sources[len(labeled) :], about["num_left_out"]


def require_made_from(
    file, examples: Examples, settings: dict | None = None
) -> None:
    """Requires that a file was made from these texts, if it contains that.

    With `settings`, it also requires these, and that the file contains them.
    """
    with open(file, "rb") as opened:
        first = opened.readline().decode(errors="replace")
        copies = content_digest(hashlib.file_digest(opened, "sha256"))
    if not first.startswith(NOTE):
        if settings:
            raise UsageError(
                f"{file} does not contain how it was made. Without options for "
                "augmentation it is used."
            )
        return
    note = json.loads(first.removeprefix(NOTE))
    expected = {"texts": rows_digest(examples.texts), "copies": copies}
    changes = [
        change_in_words(name, note.get(name), value)
        for name, value in sorted((expected | (settings or {})).items())
        if note.get(name) != value
    ]
    if changes:
        raise UsageError(
            f"{file} does not fit: {'; '.join(changes)}. Make it again."
        )


def read_copies(file, num_texts: int, num_rows: int):
    """Yields the source and the texts of every augmented example in a file."""
    lines = numbered_lines(file)
    rows = (line for line in lines if line[0] > 1 or line[1][:2] != NOTE)
    table = table_of_rows(file, tab_rows(rows), "")
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
