"""The metadata in an exported file: an entry about the model.

In a `.tflite` file the entry is an associated file, as TensorFlow Lite's
metadata format defines it: a ZIP archive after the flat buffer, which
interpreters ignore and `unzip` reads. Other exporters store the JSON from
`complete` where their format allows it, and read it with `parse`. The entry
contains the number of parameters, because it cannot be counted in the file: the
converter truncates position embeddings at a fixed length, folds constants and
adds its own.
"""

import dataclasses
import hashlib
import json
import pathlib
import zipfile
import zlib

from kdkit.errors import UsageError, shortened
from kdkit.export.inputs import ENCODER_DECODER
from kdkit.io.files import add_content
from kdkit.io.reading import parse_json
from kdkit.settings import from_dict
from kdkit.taps.names import SENTENCE_EMBEDDING
from kdkit.version import __version__
from kdkit.weights import count_parameters

ENTRY = "kdkit.json"
MAX_BYTES = 1 << 16  # limit for the entry
OUTPUTS = ("logits", "softmax", "sigmoid", SENTENCE_EMBEDDING)
# Errors from zipfile: truncated, invalid names, encrypted, unknown compression.
ARCHIVE_ERRORS = (
    EOFError, OSError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Metadata:
    """The entry that kdkit adds to a file."""

    precision: str
    parameters: int
    vocabulary_size: int | None
    kdkit_version: str
    rows_per_output: int = 1
    reads_tokens: bool = False
    reads_sources: bool = False
    size: int | None = None
    sha256: str | None = None
    outputs: str = "logits"


def describe(source, precision: str) -> Metadata:
    """Returns the entry about a model, without size and checksum."""
    return Metadata(
        precision=precision,
        parameters=count_parameters(source.model),
        vocabulary_size=source.vocabulary_size,
        kdkit_version=__version__,
        rows_per_output=source.rows_per_output,
        reads_tokens=source.step is not None,
        reads_sources=source.kind == ENCODER_DECODER,
        outputs=source.outputs,
    )


def attach(path: pathlib.Path, metadata: Metadata) -> None:
    """Appends the entry, with a checksum, to a file that has none."""
    # The archive's directory, at the end of the file, will be overwritten.
    with zipfile.ZipFile(path, "a") as archive:
        size = archive.start_dir
    add_files(path, {ENTRY: complete(path, metadata, size)})


def add_files(path: pathlib.Path, files: dict[str, str]) -> None:
    """Appends uncompressed text files to the archive after a flat buffer."""
    with zipfile.ZipFile(path, "a") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)  # dated 1980, not now
            entry.external_attr = 0o600 << 16
            archive.writestr(entry, text)


def complete(
    path: pathlib.Path, metadata: Metadata, size: int | None = None
) -> str:
    """Returns the entry as JSON, with the file's current size and checksum."""
    if size is None:
        size = path.stat().st_size
    metadata = dataclasses.replace(
        metadata, size=size, sha256=_digest(path, size)
    )
    return json.dumps(dataclasses.asdict(metadata))


def read(path: pathlib.Path) -> Metadata | None:
    """Returns the entry, or `None` for a file that is not from kdkit."""
    try:
        if not zipfile.is_zipfile(path):
            return None
        with zipfile.ZipFile(path) as archive:
            if ENTRY not in archive.namelist():
                return None
            info = archive.getinfo(ENTRY)
            if info.file_size > MAX_BYTES:
                raise _damaged(path, f"an entry of {info.file_size} bytes")
            content = archive.read(info)
    except UsageError:
        raise
    except ARCHIVE_ERRORS as error:
        raise _damaged(path, error or type(error).__name__) from error
    return parse(path, content)


def parse(path: pathlib.Path, content: str | bytes) -> Metadata:
    """Returns the entry from its JSON, and checks the file's checksum."""
    try:
        found = from_dict(Metadata, parse_json(content))
    except UsageError as error:
        raise _damaged(path, error) from error
    if found.outputs not in OUTPUTS:
        raise _damaged(path, f"outputs={shortened(found.outputs)}")
    if found.size is not None and found.sha256 != _digest(path, found.size):
        raise _damaged(path, "a file whose content has changed")
    return found


def _damaged(path, what):
    return UsageError(
        f"{path} is damaged, or its {ENTRY} is from another version of kdkit. "
        f"Received: {what}. Restore it from a copy, or export it again."
    )


def _digest(path, size):
    """Returns the checksum of a file's first bytes."""
    total = hashlib.sha256()
    add_content(total, path, size)
    return total.hexdigest()
