"""Augmented rows on disk: written step by step, gone on with, then named."""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Callable

from kdkit.data.examples import Examples
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.io.disk import describe
from kdkit.io.disk import disk_problem
from kdkit.io.files import add_content
from kdkit.io.files import change_in_words
from kdkit.io.files import digest
from kdkit.io.files import digest_of_content
from kdkit.io.files import rename
from kdkit.io.files import staged
from kdkit.io.files import write_text
from kdkit.io.locks import alone_with
from kdkit.io.reading import read_json


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a file is written.

    Args:
        rows: int. Source rows behind it.
        copies: int. Copies of them.
        size: int. Bytes of the file that hold them.
    """

    rows: int = 0
    copies: int = 0
    size: int = 0


def note_of(output: pathlib.Path) -> pathlib.Path:
    """Returns where the note of a finished file stands."""
    return output.with_name(f"{output.name}.json")


def write_note(
    path: pathlib.Path,
    fingerprint: dict,
    progress: Progress,
    content: str,
) -> None:
    """Notes how far a file is, after it was written so far.

    Args:
        path: `pathlib.Path` of the note.
        fingerprint: dict of what decides the copies, as JSON has it.
        progress: `Progress`.
        content: string. The digest of what is written so far.

    Raises:
        RunError: if it cannot be written, as on a full disk.
    """
    noted = {
        "fingerprint": fingerprint,
        "progress": dataclasses.asdict(progress),
        "content": content,
    }
    write_text(path, json.dumps(noted))


def check_made_from(file, examples: Examples, fingerprint: dict) -> bool:
    """Checks a finished file against what its note says it was made from.

    Args:
        file: path of a file of `write_augmented`, or of another program, which
            left no note.
        examples: `Examples` that the copies should be of.
        fingerprint: dict of what should have decided them; empty where that
            makes no difference.

    Returns:
        Whether there is a note and all is as it says.

    Raises:
        UsageError: (a `ValueError`) with everything that differs, or if
            a fingerprint is expected and there is no note.
    """
    note = note_of(pathlib.Path(file))
    if not note.is_file():
        if fingerprint:
            raise UsageError(
                f"What {file} was made from is not known: there is no "
                f"{note.name} beside it. Leave out how it is made to use it as "
                "it is, or name another file."
            )
        return False
    whole = read_json(note, "a note of kdkit augment", of_note)
    noted = whole["fingerprint"]
    wanted = {**fingerprint, "texts": digest_of_texts(examples)}
    different = differences(noted, wanted, set(wanted))
    if different:
        raise UsageError(
            f"{file} was made from something else: {different}. Use what it "
            "was made from, or name another file."
        )
    content = whole.get("content")
    if content is not None and content != digest(pathlib.Path(file)):
        raise UsageError(
            f"{file} is damaged: it is not what {note.name} says was written. "
            "Restore it from a copy, or remove both and make it again."
        )
    return True


def of_note(noted: dict) -> str | None:
    """Returns what is wrong with a note as it was read, `None` if nothing."""
    progress = noted.get("progress")
    if not isinstance(noted.get("fingerprint"), dict):
        return "it has no 'fingerprint'"
    fields = {field.name for field in dataclasses.fields(Progress)}
    if not isinstance(progress, dict) or set(progress) != fields:
        return f"expected {sorted(fields)} in its 'progress'"
    if not all(
        type(value) is int and value >= 0 for value in progress.values()
    ):
        return "expected numbers in its 'progress'"
    return None


def differences(first: dict, second: dict, names: set[str]) -> str:
    """Returns what differs between two fingerprints, `""` if nothing.

    Args:
        first: dict. What was.
        second: dict. What is.
        names: set of strings. What is compared of them.
    """
    different = [
        name for name in sorted(names) if first.get(name) != second.get(name)
    ]
    return "; ".join(
        change_in_words(name[:100], first.get(name), second.get(name))
        for name in different[:10]
    )


def digest_of_texts(examples: Examples) -> str:
    """Returns a digest of all texts, in their order."""
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


def check_output(output) -> None:
    """Checks that a file of this name would be new.

    Raises:
        UsageError: if it is there already.
    """
    if pathlib.Path(output).exists():
        raise UsageError(
            f"{output} is there already. Expected the name of a new file. "
            "Remove it, or name another."
        )


@contextlib.contextmanager
def written_alone(output: pathlib.Path):
    """Keeps other processes from writing a file meanwhile.

    Args:
        output: `pathlib.Path`, which is there at the end of the block.

    Raises:
        UsageError: if another process is writing it, or it is there already.
    """
    check_output(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    with alone_with(output, "file"):
        check_output(output)  # another may just have finished it
        yield


ROWS_PER_STEP = 1024  # augmented together


def rows_of_step(first: int, end: int) -> range:
    """Returns the rows that are augmented together, from one of them on.

    >>> rows_of_step(1024, 3000), rows_of_step(2048, 3000)
    (range(1024, 2048), range(2048, 3000))
    """
    return range(first, min(first + ROWS_PER_STEP, end))


def rows_of_part(num_rows: int, part: tuple[int, int] | None):
    """Returns the first of the rows of a part, and what follows its last one.

    Parts are whole steps, whose rows are augmented together: what the model
    says of a text depends in its last bits on what is read with it.

    >>> rows_of_part(5000, (1, 3))
    (1024, 3072)
    """
    which, count = part or (0, 1)
    num_steps = -(-num_rows // ROWS_PER_STEP)
    first, end = (
        min(num_steps * number // count * ROWS_PER_STEP, num_rows)
        for number in (which, which + 1)
    )
    return first, end


def fields_of_part(num_rows: int, part: tuple[int, int]) -> dict:
    """Returns what the note of a part says beside what decides all copies.

    >>> fields_of_part(5000, (1, 3))
    {'part': '2/3', 'rows': [1024, 3072]}
    """
    which, count = part
    return {
        "part": f"{which + 1}/{count}",
        "rows": list(rows_of_part(num_rows, part)),
    }


def part_of_file(output, part: tuple[int, int]) -> pathlib.Path:
    """Returns the name of a part of a file: part i, from 0, of n.

    >>> part_of_file("copies.tsv", (0, 4)).name
    'copies.part_1_of_4.tsv'
    """
    output = pathlib.Path(output)
    which, count = part
    return output.with_name(
        f"{output.stem}.part_{which + 1}_of_{count}{output.suffix}"
    )


def numbers_of_parts(output) -> list[int]:
    """Returns of how many parts those are that stand beside a file.

    Args:
        output: path of the file.

    Returns:
        A sorted list of ints: empty without parts, several where there are
        parts of several numbers.
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
    """Puts the parts of a file together, as one process would have written it.

    Args:
        examples: `Examples` that the copies are of.
        output: path of the new file.
        fingerprint: dict, as in `write_augmented`.

    Returns:
        `Progress`, or `None` where there are no parts.

    Raises:
        UsageError: (a `ValueError`) if a part is missing, was made from
            something else, there are parts of several numbers, or another
            process is writing the file.
    """
    output = pathlib.Path(output)
    counts = numbers_of_parts(output)
    if not counts:
        return None
    if len(counts) > 1:
        raise UsageError(
            f"Expected the parts of {output} to be of one number of parts. "
            f"Received: parts of {' and of '.join(map(str, counts))}. Remove "
            "those that are not wanted."
        )
    (count,) = counts
    parts = [part_of_file(output, (which, count)) for which in range(count)]
    missing = [part.name for part in parts if not part.exists()]
    if missing:
        raise UsageError(
            f"{output} is not whole: there is no {', '.join(missing)}. Make "
            "them first, or remove the other parts."
        )
    with written_alone(output):
        return _join(parts, examples, output, fingerprint)


def _join(parts, examples, output, fingerprint):
    copies = 0
    for which, part in enumerate(parts):
        of_part = fields_of_part(len(examples), (which, len(parts)))
        check_made_from(part, examples, fingerprint | of_part)
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
        whole = {**fingerprint, "texts": digest_of_texts(examples)}
        write_note(note_of(output), whole, progress, digest(partial))
    for part in parts:
        part.unlink(missing_ok=True)
        note_of(part).unlink(missing_ok=True)
    return progress
