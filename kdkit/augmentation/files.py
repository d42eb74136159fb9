"""Writes files of augmented examples step by step; resumable."""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Callable

from kdkit.data.tables import Examples
from kdkit.errors import UsageError
from kdkit.io.files import (
    add_content,
    change_in_words,
    content_digest,
    digest,
    rename,
    staged,
    write_text,
)
from kdkit.io.locks import alone_with


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of a file."""

    rows: int = 0
    copies: int = 0
    size: int = 0


def note_path(output: pathlib.Path) -> pathlib.Path:
    """Returns the path of a finished file's note."""
    return output.with_name(f"{output.name}.json")


def write_note(
    path: pathlib.Path,
    fingerprint: dict,
    progress: Progress,
    content: str,
) -> None:
    """Writes the progress of a file, after the file itself was written."""
    noted = {
        "fingerprint": fingerprint,
        "progress": dataclasses.asdict(progress),
        "content": content,
    }
    write_text(path, json.dumps(noted))


def require_fingerprint(file, examples: Examples, fingerprint: dict) -> bool:
    """Compares a finished file's note with the expected fingerprint.

    Args:
        file: path of a file from `write_augmented`, or from another program,
            which has no note.
        examples: `Examples`, the expected source of the copies.
        fingerprint: dict of the expected fingerprint; empty to accept any.

    Returns:
        Whether there is a note and everything matches.

    Raises:
        UsageError: (a `ValueError`) with the differences, for a file that has
            changed, or if a fingerprint is expected and there is no note.
    """
    note = note_path(pathlib.Path(file))
    if not note.is_file():
        if fingerprint:
            raise UsageError(
                f"There is no {note.name} next to {file}, so it is unknown how "
                "it was made. Without options for augmentation it is used."
            )
        return False
    whole = json.loads(note.read_text())
    noted = whole["fingerprint"]
    wanted = {**fingerprint, "texts": texts_digest(examples)}
    different = differences(noted, wanted, set(wanted))
    if different:
        raise UsageError(f"{file} was made with other settings: {different}.")
    if whole["content"] != digest(pathlib.Path(file)):
        raise UsageError(
            f"{file} has changed since it was made. Remove it and {note.name}."
        )
    return True


def differences(first: dict, second: dict, names: set[str]) -> str:
    """Returns the differences between two fingerprints, `""` without any."""
    return "; ".join(
        change_in_words(name, first.get(name), second.get(name))
        for name in sorted(names)
        if first.get(name) != second.get(name)
    )


def texts_digest(examples: Examples) -> str:
    """Returns a checksum of all texts, in their order."""
    digest = hashlib.sha256()
    for column in examples.texts:
        for text in column:
            digest.update(text.encode())
            digest.update(b"\0")
    return digest.hexdigest()[:16]


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
    """Writes the copies of all examples into a tab-separated file.

    The file has a header: `source_row`, counted from 0; `column`, which text of
    the example was changed; `copy`, counted from 1; and the texts. It is
    written under a temporary name next to its final name, and a `.json` file
    with the same name describes how it was made. An interrupted run resumes
    where it stopped.

    Args:
        examples: `Examples`, sentences or pairs.
        augmenter: `Augmenter`.
        output: path of the file.
        columns: tuple of strings. The headings of the texts.
        fingerprint: dict of everything that the copies depend on. A file with
            another fingerprint is not resumed.
        in_place: bool. Whether the second text of a pair is written next to the
            last copy of the first text, as in the TinyBERT authors' code,
            instead of the first text itself. Defaults to `False`.
        announce: callable of a `Progress` after each step.
        part: tuple of ints i, n or `None`. Process i, from 0, of n processes
            that share the examples. It writes `part_path(output, part)`, and
            `join_parts` joins the parts. Defaults to `None`.

    Returns:
        `Progress`, the final one.

    Raises:
        UsageError: (a `ValueError`) if the file already exists, or was begun
            with other settings.
    """
    output = pathlib.Path(output)
    if part is not None:
        output = part_path(output, part)
        fingerprint = fingerprint | part_fields(len(examples), part)
    first, end = part_rows(len(examples), part)
    unfinished = output.with_name(f".{output.name}.part")
    state = output.with_name(f".{output.name}.json")
    fingerprint = {**fingerprint, "texts": texts_digest(examples)}
    with exclusive_file(output):
        begun, content = _begun(unfinished, state, output, fingerprint)
        progress = _write(
            examples, augmenter, unfinished, state, fingerprint,
            begun or Progress(rows=first), content, end, columns, in_place,
            announce,
        )  # fmt: skip
        # The note first: a file without a note could not be checked.
        rename(state, note_path(output))
        rename(unfinished, output)
    return progress


def _write(
    examples, augmenter, unfinished, state, fingerprint, progress, content, end,
    columns, in_place, announce,
):  # fmt: skip
    """Writes the remaining examples; returns the final progress."""
    with open(unfinished, "r+b" if progress.size else "wb") as file:
        file.truncate(progress.size)
        file.seek(progress.size)

        def keep(lines, progress):
            file.write(lines)
            content.update(lines)
            file.flush()
            os.fsync(file.fileno())
            progress = dataclasses.replace(progress, size=file.tell())
            noted = content_digest(content)
            write_note(state, fingerprint, progress, noted)
            return progress

        head = b"" if progress.size else _line((*SOURCE, *columns))
        progress = keep(head, progress)  # a part may have no examples
        while progress.rows < end:
            lines, progress = _step(
                examples, augmenter, progress, end, in_place
            )
            progress = keep(lines, progress)
            announce(progress)
    return progress


def _step(examples, augmenter, progress, end, in_place):
    """Returns lines with the next examples' copies, and the new progress."""
    numbers = step_rows(progress.rows, end)
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
        for place, column_copies in enumerate(copies):
            for count, copy in enumerate(column_copies[index], start=1):
                changed = [*row[:place], copy, *row[place + 1 :]]
                lines.append(_line((number, place, count, *changed)))
            if in_place and column_copies[index]:
                row[place] = column_copies[index][-1]
    copies = progress.copies + len(lines)
    return b"".join(lines), Progress(numbers.stop, copies)


def _begun(unfinished, state, output, fingerprint):
    """Returns the progress of an earlier run, if any, and a hash."""
    content = hashlib.sha256()
    if not state.is_file() and _is_named(unfinished, output, fingerprint):
        state = note_path(output)
    if not (unfinished.is_file() and state.is_file()):
        return None, content
    noted = json.loads(state.read_text())
    noted_before = noted["fingerprint"]
    different = differences(
        noted_before, fingerprint, {*noted_before, *fingerprint}
    )
    if different:
        raise UsageError(
            f"{output} was begun with other settings: {different}. Use the "
            f"same settings to resume, or remove {unfinished} and {state}."
        )
    progress = Progress(**noted["progress"])
    add_content(content, unfinished, progress.size)
    if noted["content"] != content_digest(content):
        raise UsageError(
            f"{unfinished} has changed since it was begun. Remove it and "
            f"{state}."
        )
    return progress, content


def _is_named(unfinished, output, fingerprint):
    """Whether a run stopped after it renamed the note, before the file."""
    note = note_path(output)
    if not (unfinished.is_file() and note.is_file()):
        return False
    noted = json.loads(note.read_text())
    return noted["fingerprint"] == fingerprint and (
        noted["content"] == digest(unfinished)
    )


def _line(cells):
    """Returns a line of the file; tabs and line feeds become blanks."""
    texts = (" ".join(str(cell).split("\t")) for cell in cells)
    line = "\t".join(" ".join(text.splitlines()) for text in texts)
    return f"{line}\n".encode()


def require_new_file(output) -> None:
    """Raises an error if a file already exists.

    Raises:
        UsageError: if the file exists.
    """
    if pathlib.Path(output).exists():
        raise UsageError(
            f"{output} already exists. Expected the name of a new file."
        )


@contextlib.contextmanager
def exclusive_file(output: pathlib.Path):
    """Prevents other processes from writing a file inside the block."""
    require_new_file(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    with alone_with(output):
        require_new_file(output)  # another process may just have finished it
        yield


ROWS_PER_STEP = 1024  # examples augmented together


def step_rows(first: int, end: int) -> range:
    """Returns the examples that are augmented together in one step."""
    return range(first, min(first + ROWS_PER_STEP, end))


def part_rows(num_rows: int, part: tuple[int, int] | None):
    """Returns the first example of a part, and the one after its last.

    Parts consist of whole steps, whose examples are augmented together: the
    last bits of the model's output for a text depend on the rest of its batch.

    >>> part_rows(5000, (1, 3))
    (1024, 3072)
    """
    which, count = part or (0, 1)
    num_steps = -(-num_rows // ROWS_PER_STEP)
    first, end = (
        min(num_steps * number // count * ROWS_PER_STEP, num_rows)
        for number in (which, which + 1)
    )
    return first, end


def part_fields(num_rows: int, part: tuple[int, int]) -> dict:
    """Returns the additional fields of a part's fingerprint."""
    which, count = part
    return {
        "part": f"{which + 1}/{count}",
        "rows": list(part_rows(num_rows, part)),
    }


def part_path(output, part: tuple[int, int]) -> pathlib.Path:
    """Returns the path of part i, from 0, of n parts of a file.

    >>> part_path("copies.tsv", (0, 4)).name
    'copies.part_1_of_4.tsv'
    """
    output = pathlib.Path(output)
    which, count = part
    return output.with_name(
        f"{output.stem}.part_{which + 1}_of_{count}{output.suffix}"
    )


def part_counts(output) -> list[int]:
    """Returns the numbers of parts for which files exist.

    Args:
        output: path of the file.

    Returns:
        A sorted list of ints: empty without parts, several if parts of
        different numbers exist.
    """
    output = pathlib.Path(output)
    name = re.compile(
        rf"{re.escape(output.stem)}\.part_\d+_of_(\d+){re.escape(output.suffix)}"
    )
    matches = [name.fullmatch(path.name) for path in output.parent.glob("*")]
    return sorted({int(match[1]) for match in matches if match})


def join_parts(
    examples: Examples, output, fingerprint: dict
) -> Progress | None:
    """Joins the parts of a file to one, as one process would have written it.

    Args:
        examples: `Examples`, the source of the copies.
        output: path of the new file.
        fingerprint: dict, as in `write_augmented`.

    Returns:
        `Progress`, or `None` if there are no parts.

    Raises:
        UsageError: (a `ValueError`) if a part is missing or has another
            fingerprint, or if another process is writing the file.
    """
    output = pathlib.Path(output)
    counts = part_counts(output)
    if not counts:
        return None
    (count,) = counts
    parts = [part_path(output, (which, count)) for which in range(count)]
    with exclusive_file(output):
        return _join(parts, examples, output, fingerprint)


def _join(parts, examples, output, fingerprint):
    copies = 0
    for which, part in enumerate(parts):
        own_fields = part_fields(len(examples), (which, len(parts)))
        require_fingerprint(part, examples, fingerprint | own_fields)
    with staged(output) as partial:
        with open(partial, "wb") as file:
            for number, part in enumerate(parts):
                with open(part, "rb") as lines:
                    head = next(lines)
                    if number == 0:
                        file.write(head)
                    for line in lines:
                        file.write(line)
                        copies += 1
        progress = Progress(len(examples), copies, partial.stat().st_size)
        whole = {**fingerprint, "texts": texts_digest(examples)}
        write_note(note_path(output), whole, progress, digest(partial))
    for part in parts:
        part.unlink(missing_ok=True)
        note_path(part).unlink(missing_ok=True)
    return progress
