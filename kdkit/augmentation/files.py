"""Augmented rows on disk: written step by step, gone on with, then named."""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Callable

from kdkit.augmentation.notes import Progress
from kdkit.augmentation.notes import differences
from kdkit.augmentation.notes import digest_of_texts
from kdkit.augmentation.notes import note_of
from kdkit.augmentation.notes import of_note
from kdkit.augmentation.notes import write_note
from kdkit.augmentation.outputs import written_alone
from kdkit.augmentation.parts import fields_of_part
from kdkit.augmentation.parts import part_of_file
from kdkit.augmentation.parts import rows_of_part
from kdkit.augmentation.parts import rows_of_step
from kdkit.data.examples import Examples
from kdkit.disk import describe
from kdkit.disk import disk_problem
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.files import add_content
from kdkit.files import digest
from kdkit.files import digest_of_content
from kdkit.files import rename
from kdkit.reading import read_json

SOURCE = ("source_row", "column", "copy")


def write_augmented(
    examples: Examples,
    augmenter,
    output,
    columns: tuple[str, ...],
    fingerprint: dict,
    in_place: bool = False,
    announce: Callable[[Progress], None] = lambda progress: None,
    part: tuple[int, int] | None = None,
) -> Progress:
    """Writes the copies of all rows into a tab-separated file.

    The file has a header: `source_row`, counted from 0, `column`, which text
    of the row was changed, `copy`, counted from 1, and the texts. It is written
    beside its final name, which it gets at the end, and what it was made from
    is noted in a `.json` file of the same name. What was stopped goes on where
    it was.

    Args:
        examples: `Examples`, sentences or pairs.
        augmenter: `Augmenter`.
        output: path of the file.
        columns: tuple of strings. The headings of the texts.
        fingerprint: dict of what decides the copies. A file that was begun with
            another one is not gone on with.
        in_place: bool. Whether the second text of a pair is written beside the
            last copy of the first, as the code of TinyBERT's authors does,
            rather than beside the first itself. Defaults to `False`.
        announce: callable of a `Progress` after each step.
        part: tuple of ints i, n or `None`. Of n processes that share the rows
            this is i, from 0, and writes `part_of_file(output, part)`, which
            `join_parts` puts together. Defaults to `None`.

    Returns:
        `Progress` at the end.

    Raises:
        UsageError: (a `ValueError`) if the file is there already, or was begun
            with other settings.
        RunError: if it cannot be written, as on a full disk.
    """
    output = pathlib.Path(output)
    if part is not None:
        output = part_of_file(output, part)
        fingerprint = fingerprint | fields_of_part(len(examples), part)
    first, end = rows_of_part(len(examples), part)
    unfinished = output.with_name(f".{output.name}.part")
    state = output.with_name(f".{output.name}.json")
    fingerprint = {**fingerprint, "texts": digest_of_texts(examples)}
    try:
        with written_alone(output):
            begun, content = _begun(unfinished, state, output, fingerprint)
            progress = _write(
                examples, augmenter, unfinished, state, fingerprint,
                begun or Progress(rows=first), content, end, columns, in_place,
                announce,
            )  # fmt: skip
            # The note first: a file without one would not be known.
            rename(state, note_of(output))
            rename(unfinished, output)
    except (OSError, RunError) as error:
        number = disk_problem(error)
        if number is None:
            raise
        begun, _ = _begun(unfinished, state, output, fingerprint)
        kept = begun.rows - first if begun else 0
        kept = (
            f"{kept} of {end - first} rows are kept beside it; the same "
            "command goes on with the others."
        )
        raise RunError(describe(output, number, kept)) from error
    return progress


def _write(
    examples, augmenter, unfinished, state, fingerprint, progress, content, end,
    columns, in_place, announce,
):  # fmt: skip
    """Writes what is left of the rows; returns the progress at the end."""
    with open(unfinished, "r+b" if progress.size else "wb") as file:
        file.truncate(progress.size)
        file.seek(progress.size)

        def keep(lines, progress):
            file.write(lines)
            content.update(lines)
            file.flush()
            os.fsync(file.fileno())
            progress = dataclasses.replace(progress, size=file.tell())
            noted = digest_of_content(content)
            write_note(state, fingerprint, progress, noted)
            return progress

        head = b"" if progress.size else _line((*SOURCE, *columns))
        progress = keep(head, progress)  # a part may have no rows
        while progress.rows < end:
            lines, progress = _step(
                examples, augmenter, progress, end, in_place
            )
            progress = keep(lines, progress)
            announce(progress)
    return progress


def _step(examples, augmenter, progress, end, in_place):
    """Lines with the copies of the next rows, and the progress with them."""
    numbers = rows_of_step(progress.rows, end)
    texts = [
        [column[number] for number in numbers] for column in examples.texts
    ]
    copies = [
        augmenter(column, first_row=numbers.start, column=place)
        for place, column in enumerate(texts)
    ]
    lines = []
    for index, number in enumerate(numbers):
        row = [column[index] for column in texts]
        for place, of_column in enumerate(copies):
            for count, copy in enumerate(of_column[index], start=1):
                changed = [*row[:place], copy, *row[place + 1 :]]
                lines.append(_line((number, place, count, *changed)))
            if in_place and of_column[index]:
                row[place] = of_column[index][-1]
    copies = progress.copies + len(lines)
    return b"".join(lines), Progress(numbers.stop, copies)


def _begun(unfinished, state, output, fingerprint):
    """What an earlier run wrote, if there is any, and a hash of it."""
    content = hashlib.sha256()
    if not state.is_file() and _is_named(unfinished, output, fingerprint):
        state = note_of(output)
    if not (unfinished.is_file() and state.is_file()):
        return None, content
    noted = read_json(state, "a note of kdkit augment", of_note)
    noted_before = noted["fingerprint"]
    different = differences(
        noted_before, fingerprint, {*noted_before, *fingerprint}
    )
    if different:
        raise UsageError(
            f"{output} was begun with other settings: {different}. Give the "
            f"same ones to go on, or remove {unfinished} and {state}."
        )
    progress = Progress(**noted["progress"])
    if unfinished.stat().st_size < progress.size:
        raise UsageError(
            f"{unfinished} is cut off: expected {progress.size} bytes or more. "
            f"Received: {unfinished.stat().st_size}. Remove it and {state}."
        )
    add_content(content, unfinished, progress.size)
    # Versions before noted none.
    if noted.get("content") not in (None, digest_of_content(content)):
        raise UsageError(
            f"{unfinished} is damaged: expected what {state.name} says was "
            f"written. Received: other bytes. Remove it and {state}."
        )
    return progress, content


def _is_named(unfinished, output, fingerprint):
    """Whether all is written and its note has its name, the file not yet."""
    note = note_of(output)
    if not (unfinished.is_file() and note.is_file()):
        return False
    noted = read_json(note, "a note of kdkit augment", of_note)
    return noted["fingerprint"] == fingerprint and (
        noted.get("content") == digest(unfinished)
    )


def _line(cells):
    """A line of the file; tabs and line feeds within texts become blanks."""
    texts = (" ".join(str(cell).split("\t")) for cell in cells)
    line = "\t".join(" ".join(text.splitlines()) for text in texts)
    return f"{line}\n".encode()
