"""The metadata in an exported file: an entry about the model.

In a `.tflite` file the entry is an associated file, as TensorFlow Lite's
metadata format defines it: a ZIP archive after the flat buffer, which
interpreters ignore and `unzip` reads; in a SavedModel it is a file. Other
exporters store the JSON from `to_json` where their format allows it, and read
it with `parse`. The entry contains the number of parameters, because it cannot
be counted in the file: the converter truncates position embeddings at a fixed
length, folds constants and adds its own.
"""

import dataclasses
import json
import pathlib
import zipfile

from kdkit.export.inputs import ENCODER_DECODER
from kdkit.io.reading import parse_json
from kdkit.settings import from_dict
from kdkit.taps.names import SENTENCE_EMBEDDING
from kdkit.version import __version__
from kdkit.weights import count_parameters

ENTRY = "kdkit.json"
OUTPUTS = ("logits", "softmax", "sigmoid", SENTENCE_EMBEDDING)


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
    outputs: str = "logits"


def describe(source, precision: str) -> Metadata:
    """Returns the entry about a model."""
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
    """Appends the entry to a file that has none."""
    add_files(path, {ENTRY: to_json(metadata)})


def add_files(path: pathlib.Path, files: dict[str, str]) -> None:
    """Appends uncompressed text files to the archive after a flat buffer."""
    with zipfile.ZipFile(path, "a") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)  # dated 1980, not now
            entry.external_attr = 0o600 << 16
            archive.writestr(entry, text)


def to_json(metadata: Metadata) -> str:
    """Returns the entry as JSON."""
    return json.dumps(dataclasses.asdict(metadata))


def read(path: pathlib.Path) -> Metadata | None:
    """Returns the entry, or `None` for a file that is not from kdkit."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        if ENTRY not in archive.namelist():
            return None
        return parse(archive.read(ENTRY))


def parse(content: str | bytes) -> Metadata:
    """Returns the entry from its JSON."""
    return from_dict(Metadata, parse_json(content))
