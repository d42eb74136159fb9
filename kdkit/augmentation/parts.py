"""Parts of a file of augmented rows, which several processes write."""

import pathlib
import re

from kdkit.augmentation.notes import Progress
from kdkit.augmentation.notes import check_made_from
from kdkit.augmentation.notes import digest_of_texts
from kdkit.augmentation.notes import note_of
from kdkit.augmentation.notes import write_note
from kdkit.augmentation.outputs import written_alone
from kdkit.data.examples import Examples
from kdkit.errors import UsageError
from kdkit.files import digest
from kdkit.files import staged

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
