"""What a file of augmented rows was made from, noted beside it."""

import dataclasses
import hashlib
import json
import pathlib

from kdkit.data.examples import Examples
from kdkit.errors import UsageError
from kdkit.files import change_in_words
from kdkit.files import digest
from kdkit.files import write_text
from kdkit.reading import read_json


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
