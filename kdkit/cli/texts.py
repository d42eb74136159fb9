"""What encoder-decoders write of texts, as the options of verbs say."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib

import keras

from kdkit import export
from kdkit import generation
from kdkit import models
from kdkit.cli.models import file_tokenizer
from kdkit.errors import UsageError
from kdkit.io.files import write_text
from kdkit.io.reading import has_text
from kdkit.io.reading import read_json
from kdkit.runs.settings import PretrainSettings
from kdkit.settings import from_dict
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.sentence_settings import SentenceSettings


def beams_of(options) -> "generation.Beams":
    """The beams that the options say, those of `Beams` unless they do.

    Raises:
        UsageError: for a beam of 0 or a negative penalty.
    """
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
    """An encoder-decoder or its file, and what is known of it.

    Args:
        model: `kdkit.models.MassSeq2SeqLM` or `kdkit.export.LiteRTSeq2Seq`.
        tokenizer: `kdkit.models.MassTokenizer` or
            `kdkit.models.TokenizerPair`.
        text: `SentenceSettings` or `PairSettings` of the run that it is of, or
            `None`.
        languages: tuple of two strings or `None`s. What it reads and writes.
        trained_length: int or `None`. How many tokens of a text it was trained
            on at most, where that is known.
    """

    model: object
    tokenizer: object
    text: SentenceSettings | PairSettings | None
    languages: tuple[str | None, str | None]
    trained_length: int | None

    @property
    def is_file(self) -> bool:
        return not isinstance(self.model, keras.Model)

    @property
    def room(self) -> int:
        """How many tokens are read and written unless it is said.

        Positions behind those of training are still what they were at random.
        """
        positions = (
            self.model.room
            if self.is_file
            else self.model.backbone.max_sequence_length
        )
        return min(positions, self.trained_length or positions)


def is_writer(model: str) -> bool:
    """Whether a MODEL is an encoder-decoder, or a file of one."""
    return models.has_encoder_decoder(model) or export.reads_sources(model)


def open_writer(place, options) -> OpenedWriter:
    """Opens an encoder-decoder or its file.

    Args:
        place: `kdkit.cli.models.Place`.
        options: the parsed options, with `tokenizer`.

    Raises:
        UsageError: if a file's tokenizer is not known, or a model is told one.
    """
    text = text_of_run(place)
    if export.exporter_of(place.path) is not None:
        file = export.open_file(place.path, kind="encoder_decoder")
        languages = (
            text.sides if isinstance(text, PairSettings) else (None,) * 2
        )
        tokenizer = file_tokenizer(place, options)
        models.require_sentence_pieces(tokenizer)
        length = None if text is None else text.sequence_length
        return OpenedWriter(file, tokenizer, text, languages, length)
    if options.tokenizer is not None:
        raise UsageError(
            "--tokenizer is for exported files. Received: "
            f"{place.path}, which has its own. Leave it out."
        )
    loaded = models.load_language_model(place.path)
    return OpenedWriter(
        loaded.model,
        loaded.tokenizer,
        text,
        loaded.languages,
        loaded.sequence_length,
    )


def text_of_run(place) -> SentenceSettings | PairSettings | None:
    """What the run of an encoder-decoder learned from, if it is of one."""
    if place.config.get("verb") != "pretrain":
        return None
    return from_dict(PretrainSettings, place.config).corpus


def languages_of(options, opened) -> tuple[str | None, str | None]:
    """The languages that are read and written: given, or the model's own.

    Raises:
        UsageError: if they are not two, or not known.
    """
    if options.languages is not None:
        if len(options.languages) != 2:
            raise UsageError(
                "--languages are the one that is read and the one that is "
                f"written. Received: {' '.join(options.languages)}."
            )
        return tuple(options.languages)
    known = models.languages_of(opened.tokenizer)
    if known and None in opened.languages:
        raise UsageError(
            "The model knows several languages. Expected --languages SOURCE "
            f"TARGET, two of {', '.join(known)}. Received: none."
        )
    return opened.languages


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
