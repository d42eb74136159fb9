"""Texts of a model on their way to a file: kept step by step, gone on with."""

import contextlib
import hashlib
import itertools
import json
import os
import pathlib

from kdkit.errors import UsageError
from kdkit.files import write_text
from kdkit.reading import has_text
from kdkit.reading import read_json

KEPT, WRITTEN = "kept_input", "written"


class BegunTexts:
    """What is written beside a file's name until all of it is there.

    Args:
        output: `pathlib.Path`. The final name.
        made_from: dict, as JSON has it, of what decides the texts.
    """

    def __init__(self, output: pathlib.Path, made_from: dict):
        self.output = output
        self.partial = output.with_name(f"{output.name}.partial")
        self.note = output.with_name(f"{output.name}.partial.json")
        self._made_from = made_from
        self._content = hashlib.sha256()
        self._num_bytes = 0

    def lines(self) -> list[str]:
        """Returns the whole lines that an earlier call left.

        Raises:
            UsageError: if they are of something else, or not what was written.
        """
        if not (self.partial.is_file() and self.note.is_file()):
            return []
        made_from, _, written = _noted(self.note)
        if made_from != self._made_from:
            raise UsageError(
                f"{self.partial} was begun with another model, text or "
                "setting. Remove it, or name another --output."
            )
        return self._lines(written)

    def _lines(self, written):
        """The whole lines that are what was noted as written."""
        texts = self.partial.read_bytes()
        if written is not None:  # versions before noted nothing of it
            texts = texts[: written["bytes"]]
            if hashlib.sha256(texts).hexdigest() != written.get("sha256"):
                raise self._damaged(f"what {self.note.name} says was written")
        whole, _, _ = texts.rpartition(b"\n")
        try:
            return whole.decode().split("\n") if whole else []
        except UnicodeDecodeError as error:
            raise self._damaged("UTF-8") from error

    def _damaged(self, expected):
        return UsageError(
            f"{self.partial} is damaged: expected {expected}. Received: other "
            "bytes. Remove it to begin anew."
        )

    @contextlib.contextmanager
    def going_on(self, lines: list[str]):
        """Yields a function that keeps further lines, on the disk.

        Args:
            lines: list of strings. Those that are kept so far.
        """
        kept = text_of(lines).encode()
        self._content.update(kept)
        self._num_bytes = len(kept)
        # The note of nothing first: texts without one would not be known.
        if not lines:
            self.write_note()
        write_text(self.partial, text_of(lines))
        with open(self.partial, "ab") as file:

            def add(some):
                texts = text_of(some).encode()
                file.write(texts)
                file.flush()
                os.fsync(file.fileno())
                self._content.update(texts)
                self._num_bytes += len(texts)
                self.write_note()

            yield add

    def write_note(self, **more: str) -> None:
        """Notes what the texts are of, and how far they are.

        Args:
            more: further fields, such as the file that the end writes, too.
        """
        written = {
            "bytes": self._num_bytes,
            "sha256": self._content.hexdigest(),
        }
        noted = {**self._made_from, WRITTEN: written, **more}
        write_text(self.note, json.dumps(noted))

    def are_done(self, sources: list[str], input_digest: str | None) -> bool:
        """Whether a stopped call had written all that its end writes.

        So that what is beside it is of no use any more. Files of the same names
        with anything else in them are no end.

        Args:
            sources: list of strings. The lines of the input.
            input_digest: string. The digest of the input.
        """
        if not self.partial.exists():  # no text is lost with the note
            return True
        if not self.note.exists():
            return False
        try:
            made_from, kept, written = _noted(self.note)
            texts = self._lines(written)
        except UsageError:  # damaged, so what was to be written is not known
            return False
        is_whole = len(texts) == len(sources)
        if made_from.get("input") != input_digest or not is_whole:
            return False
        ends = {self.output: texts}
        if kept is not None:
            has_texts = list(map(has_text, texts))
            ends = {
                self.output: itertools.compress(texts, has_texts),
                pathlib.Path(kept): itertools.compress(sources, has_texts),
            }
        return all(_is_file_of(path, lines) for path, lines in ends.items())

    def forget(self) -> None:
        """Removes both, of texts that have their name."""
        for path in (self.partial, self.note):
            path.unlink(missing_ok=True)

    @property
    def are_there(self) -> bool:
        """Whether an earlier call left something."""
        return self.partial.exists() or self.note.exists()

    @property
    def kept_input(self) -> str | None:
        """The file that the end of an earlier call was writing, too."""
        return _noted(self.note)[1] if self.note.is_file() else None


def text_of(lines) -> str:
    """Returns the text of a file with these lines."""
    return "".join(f"{line}\n" for line in lines)


def _is_file_of(path, lines):
    """Whether a file has these lines and nothing else."""
    content = text_of(lines).encode()
    return (
        path.is_file()
        and path.stat().st_size == len(content)
        and path.read_bytes() == content
    )


def _noted(note):
    """What texts were begun from, the file of their end, how far they are."""
    noted = read_json(note, "a note of kdkit generate", _of_note)
    return noted, noted.pop(KEPT, None), noted.pop(WRITTEN, None)


def _of_note(noted):
    """What is wrong with a note."""
    written = noted.get(WRITTEN, {"bytes": 0})
    num_bytes = written.get("bytes") if isinstance(written, dict) else None
    if type(num_bytes) is not int or num_bytes < 0:
        return f"expected a number of bytes in {WRITTEN!r}"
    return None
