"""Opens encoder-decoders for writing texts, and continues stopped files."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib

import keras

from kdkit import export, generation, models
from kdkit.cli.models import OWN_TOKENIZER, file_tokenizer
from kdkit.cli.verb_flags import reject_given
from kdkit.config.data import Pairs, Sentences
from kdkit.errors import UsageError
from kdkit.io.files import write_text
from kdkit.io.reading import has_text, read_json


def beam_settings(options) -> "generation.Beams":
    """Returns the beam search of the options, by default that of `Beams`."""
    names = {"num_beams": "beam_size", "length_penalty": "length_penalty"}
    return generation.Beams(
        **{
            field: getattr(options, name)
            for name, field in names.items()
            if getattr(options, name) is not None
        }
    )


@dataclasses.dataclass(frozen=True)
class OpenedWriter:
    """An encoder-decoder or its file, with its tokenizer and its run's text.

    Args:
        model: `kdkit.models.MassSeq2SeqLM` or `kdkit.export.LiteRTSeq2Seq`.
        tokenizer: `kdkit.models.Tokenizer` with languages.
        text: `Sentences` or `Pairs` of the model's run, or `None`.
        languages: tuple of two strings or `None`s. The languages of source and
            target.
        trained_length: int or `None`. The largest number of tokens in its
            training, if known.
    """

    model: object
    tokenizer: object
    text: Sentences | Pairs | None
    languages: tuple[str | None, str | None]
    trained_length: int | None

    @property
    def is_file(self) -> bool:
        return not isinstance(self.model, keras.Model)

    @property
    def room(self) -> int:
        """The default number of tokens to read and to write."""
        positions = (
            self.model.room
            if self.is_file
            else self.model.backbone.max_sequence_length
        )
        return min(positions, self.trained_length or positions)


def is_writer(model: str) -> bool:
    """Returns whether a MODEL is an encoder-decoder or its file."""
    is_known = models.find(model).kind == "encoder_decoder"
    return is_known or export.reads_sources(model)


def open_writer(place, options) -> OpenedWriter:
    """Opens an encoder-decoder or its file."""
    text = place.corpus
    if export.exporter_of(place.path) is not None:
        file = export.open_file(place.path)
        languages = text.sides if isinstance(text, Pairs) else (None,) * 2
        tokenizer = file_tokenizer(place, options.tokenizer)
        length = None if text is None else text.sequence_length
        return OpenedWriter(file, tokenizer, text, languages, length)
    reject_given(options, ("tokenizer",), OWN_TOKENIZER)
    loaded = models.load_language_model(place.path)
    return OpenedWriter(
        loaded.model,
        loaded.tokenizer,
        text,
        loaded.languages,
        loaded.sequence_length,
    )


def languages_of(options, opened) -> tuple[str | None, str | None]:
    """Returns the languages of source and target: the user's or the model's."""
    if options.languages is not None:
        return tuple(options.languages)
    known = opened.tokenizer.languages
    if known and None in opened.languages:
        raise UsageError(
            "Expected --languages SOURCE TARGET, two of "
            f"{', '.join(known)}. Received: none."
        )
    return opened.languages


KEPT, WRITTEN = "kept_input", "written"


class BegunTexts:
    """A temporary file of texts, next to the final file, and its note.

    Args:
        output: `pathlib.Path`. The final file.
        made_from: dict of JSON data. Everything that decides the texts.
    """

    def __init__(self, output: pathlib.Path, made_from: dict):
        self.output = output
        self.partial = output.with_name(f"{output.name}.partial")
        self.note = output.with_name(f"{output.name}.partial.json")
        self._made_from = made_from
        self._content = hashlib.sha256()
        self._num_bytes = 0

    def lines(self) -> list[str]:
        """Returns the complete lines of an earlier call."""
        if not (self.partial.is_file() and self.note.is_file()):
            return []
        made_from, _, written = _noted(self.note)
        if made_from != self._made_from:
            raise UsageError(
                f"{self.partial} was begun with another model, text or setting."
            )
        return self._lines(written)

    def _lines(self, written):
        """The complete lines, after comparing them with the note."""
        texts = self.partial.read_bytes()
        texts = texts[: written["bytes"]]
        if hashlib.sha256(texts).hexdigest() != written["sha256"]:
            raise UsageError(
                f"{self.partial} has other bytes than {self.note.name} notes."
            )
        whole, _, _ = texts.rpartition(b"\n")
        return whole.decode().split("\n") if whole else []

    @contextlib.contextmanager
    def going_on(self, lines: list[str]):
        """Yields a function that appends lines and flushes them to the disk."""
        kept = text_of(lines).encode()
        self._content.update(kept)
        self._num_bytes = len(kept)
        # First a note of no lines: lines without a note are of unknown origin.
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
        """Writes the note: the inputs of the texts and the number of bytes."""
        written = {
            "bytes": self._num_bytes,
            "sha256": self._content.hexdigest(),
        }
        noted = {**self._made_from, WRITTEN: written, **more}
        write_text(self.note, json.dumps(noted))

    def are_done(self, sources: list[str], input_digest: str | None) -> bool:
        """Returns whether a stopped call had written its final files."""
        if not self.partial.exists():  # no text is lost with the note
            return True
        if not self.note.exists():
            return False
        try:
            made_from, kept, written = _noted(self.note)
            texts = self._lines(written)
        except (
            ValueError,
            KeyError,
            TypeError,
        ):  # so the final content is unknown
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
        """Removes the temporary file and its note, after the final write."""
        for path in (self.partial, self.note):
            path.unlink(missing_ok=True)

    @property
    def are_there(self) -> bool:
        """Returns whether an earlier call left temporary files."""
        return self.partial.exists() or self.note.exists()

    @property
    def kept_input(self) -> str | None:
        """The second file that the end of an earlier call was writing."""
        return _noted(self.note)[1] if self.note.is_file() else None


def text_of(lines) -> str:
    """Returns the content of a file with these lines."""
    return "".join(f"{line}\n" for line in lines)


def _is_file_of(path, lines):
    """Whether a file contains exactly these lines."""
    content = text_of(lines).encode()
    return (
        path.is_file()
        and path.stat().st_size == len(content)
        and path.read_bytes() == content
    )


def _noted(note):
    """The fields of a note: the texts' inputs, the second file, the bytes."""
    noted = read_json(note, "a note of kdkit generate")
    return noted, noted.pop(KEPT, None), noted.pop(WRITTEN, None)
