"""What a `.tflite` file says about the model it was made from.

The entry is an associated file as the metadata of TensorFlow Lite has them: a
ZIP archive after the flat buffer, which interpreters skip and `unzip` reads.
Parameters are written down because they cannot be counted in the file: the
converter cuts position embeddings at a fixed length, folds constants together
and adds its own.
"""

import dataclasses
import json
import pathlib
import zipfile

ENTRY = "kdkit.json"


@dataclasses.dataclass(frozen=True)
class Metadata:
    """The entry that kdkit adds to a file.

    Args:
        precision: string. `"fp32"`, `"fp16"` or `"int8"`.
        parameters: int. `count_params()` of the Keras model.
        vocabulary_size: int or `None`. Number of token ids.
        kdkit_version: string. The version that wrote the file.
        rows_per_output: int. How many rows of the inputs make a row of the
            logits: the options of a question. Defaults to 1.
        reads_tokens: bool. Whether it is the step of a decoder, which reads
            one token at a time. Defaults to `False`.
        reads_sources: bool. Whether that decoder reads a source first, with an
            encoder. Defaults to `False`.
    """

    precision: str
    parameters: int
    vocabulary_size: int | None
    kdkit_version: str
    rows_per_output: int = 1
    reads_tokens: bool = False
    reads_sources: bool = False


def attach(path: pathlib.Path, metadata: Metadata) -> None:
    """Appends the entry to a file that has none."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(ENTRY, json.dumps(dataclasses.asdict(metadata)))


def read(path: pathlib.Path) -> Metadata | None:
    """Returns the entry, or `None` for a file that is not from kdkit."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        if ENTRY not in archive.namelist():
            return None
        return Metadata(**json.loads(archive.read(ENTRY)))
