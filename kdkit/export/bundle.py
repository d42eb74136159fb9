"""App bundles: a folder with LiteRT files and everything to run them in an app.

`manifest.json` describes the other files. `test_vectors.jsonl` contains texts
with their token ids and scores, so that an app developer can check a tokenizer
and an interpreter in any language.
"""

import dataclasses
import hashlib
import pathlib

import numpy as np
import tokenizers

from kdkit.errors import RunError, UsageError
from kdkit.export.inputs import INPUT_NAMES
from kdkit.export.litert_files import new_interpreter
from kdkit.io.files import add_content
from kdkit.io.reading import numbered_lines, parse_json, read_json
from kdkit.settings import from_dict

MANIFEST, VECTORS = "manifest.json", "test_vectors.jsonl"
LABELS, TOKENIZER = "labels.txt", "tokenizer.json"
KIND = "the manifest of an app bundle"


@dataclasses.dataclass(frozen=True)
class BundleInput:
    """An input of the LiteRT files.

    Args:
        name: string. The name in the signature `serving_default`.
        dtype: string, `"int32"`.
        shape: tuple of ints, `(1, sequence_length)`.
        meaning: string.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    meaning: str


@dataclasses.dataclass(frozen=True)
class BundleModel:
    """A LiteRT file in a bundle.

    Args:
        file: string. Its name in the bundle.
        precision: string, such as `"int8"`.
        parameters: int. The model's number of parameters.
        outputs: string. `"logits"`, `"softmax"` or `"sigmoid"`.
        output_shape: tuple of ints, `(1, num_classes)`.
        output_meaning: string.
        metrics: dict or `None`. The file's metrics on a split of the task.
    """

    file: str
    precision: str
    parameters: int
    outputs: str
    output_shape: tuple[int, ...]
    output_meaning: str
    metrics: dict[str, float] | None = None


@dataclasses.dataclass(frozen=True)
class SpecialToken:
    """A special token."""

    token: str
    id: int


@dataclasses.dataclass(frozen=True)
class BundleTokenizer:
    """The tokenizer in words; `tokenizer.json` contains all of it.

    Args:
        kind: string. `"word_pieces"`, `"byte_pairs"` or `"unigrams"`.
        files: tuple of strings. The vocabulary's files.
        lowercase: bool. Whether texts are converted to lower case.
        strip_accents: bool. Whether accents are removed.
        max_word_characters: int. Longer words are the unknown token. Only for
            word pieces.
        special_tokens: dict from `"start"`, `"end"`, `"padding"` and, if there
            is one, `"unknown"` to the token.
        separators: int. How many end tokens are between the texts of a pair.
        truncation: string. `"right"` if the ends of long texts are removed,
            `"left"` if their beginnings are. In a pair the longer text is
            truncated first.
        length: int. The number of tokens after padding on the right.
    """

    kind: str
    files: tuple[str, ...]
    lowercase: bool
    strip_accents: bool
    max_word_characters: int
    special_tokens: dict[str, SpecialToken]
    separators: int
    truncation: str
    length: int


@dataclasses.dataclass(frozen=True)
class BundleFile:
    """A file of the bundle.

    Args:
        name: string.
        size_bytes: int.
        sha256: string.
    """

    name: str
    size_bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Bundle:
    """The manifest of an app bundle.

    Args:
        kdkit_version: string. The version that wrote the bundle.
        task: string. The task's name.
        kind: string. `"classification"`, `"multi-label"` or `"regression"`.
        labels: tuple of strings, in the order of the outputs. Empty for a
            regression.
        num_texts: int. 1 for texts, 2 for pairs.
        models: tuple of `BundleModel`.
        inputs: tuple of `BundleInput`, which all models have.
        tokenizer: `BundleTokenizer`.
        tolerance: float. How far scores on another processor may be from those
            in `test_vectors.jsonl`.
        files: tuple of `BundleFile`. All files except the manifest.
    """

    kdkit_version: str
    task: str
    kind: str
    labels: tuple[str, ...]
    num_texts: int
    models: tuple[BundleModel, ...]
    inputs: tuple[BundleInput, ...]
    tokenizer: BundleTokenizer
    tolerance: float
    files: tuple[BundleFile, ...]


@dataclasses.dataclass(frozen=True)
class Outputs:
    """A model's outputs for a test vector."""

    scores: tuple[float, ...]
    labels: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class TestVector:
    """A line of `test_vectors.jsonl`."""

    __test__ = False  # no class of tests

    texts: tuple[str, ...]
    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, Outputs]


def read_bundle(path: str | pathlib.Path) -> Bundle:
    """Reads the manifest of an app bundle, and checks the other files.

    Args:
        path: string or path. The folder.

    Returns:
        The `Bundle`.

    Raises:
        UsageError: (a `ValueError`) if a file has changed.
    """
    path = pathlib.Path(path)
    bundle = from_dict(Bundle, read_json(path / MANIFEST, KIND))
    for file in bundle.files:
        if described(path / file.name) != file:
            raise UsageError(
                f"{path / file.name} has another checksum than in {MANIFEST}."
            )
    return bundle


def read_test_vectors(path: str | pathlib.Path) -> list[TestVector]:
    """Reads the test vectors of an app bundle."""
    file = pathlib.Path(path) / VECTORS
    return [
        from_dict(TestVector, parse_json(line))
        for _, line in numbered_lines(file)
    ]


def verify_bundle(path: str | pathlib.Path) -> Bundle:
    """Replays the test vectors of a bundle, without kdkit's tokenizers.

    `tokenizer.json` must give the same ids for every text, and LiteRT scores
    within the manifest's tolerance.

    Args:
        path: string or path. The folder.

    Returns:
        The `Bundle`.

    Raises:
        UsageError: (a `ValueError`) if a file has changed.
        RunError: (a `RuntimeError`) with the first text whose ids or scores
            differ.
    """
    return verify(pathlib.Path(path), pathlib.Path(path))


def verify(folder, path):
    """Does the same as `verify_bundle`, for a folder with a temporary name."""
    bundle = read_bundle(folder)
    fast = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER))
    runners = {
        model.file: Runner(folder / model.file) for model in bundle.models
    }
    for vector in read_test_vectors(folder):
        encoding = fast.encode(*vector.texts)
        found = {
            "token_ids": encoding.ids,
            "segment_ids": encoding.type_ids,
            "padding_mask": encoding.attention_mask,
        }
        for name, expected in vector.inputs.items():
            if found.get(name) != list(expected):
                raise RunError(
                    f"{path}: {TOKENIZER} gives other {name} for "
                    f"{vector.texts!r} than the model's tokenizer. Train the "
                    "model with a tokenizer from a Hugging Face checkpoint or "
                    "a vocabulary file."
                )
        for file, outputs in vector.outputs.items():
            scores = runners[file](vector.inputs)
            expected = np.array(outputs.scores)
            worst = np.inf
            if scores.shape == expected.shape:
                worst = np.abs(scores - expected).max()
            if not worst <= bundle.tolerance:
                raise RunError(
                    f"{path}: the scores of {file} for {vector.texts!r} differ "
                    f"by {worst:.3g} from {VECTORS}. Expected at most "
                    f"{bundle.tolerance:g}."
                )
    return bundle


class Runner:
    """Runs a LiteRT file on one vector, as an app does."""

    def __init__(self, path: pathlib.Path):
        self._interpreter = new_interpreter(path, threads=1)
        self._run = self._interpreter.get_signature_runner()
        self.input_names = tuple(
            name
            for name in INPUT_NAMES
            if name in self._run.get_input_details()
        )

    def __call__(self, inputs):
        """Returns the scores, an array of shape `(num_classes,)`."""
        arrays = {
            name: np.array([inputs[name]], "int32") for name in self.input_names
        }
        (scores,) = self._run(**arrays).values()
        return scores[0]


def described(path: pathlib.Path) -> BundleFile:
    """Returns a file's entry in the manifest."""
    size, content = path.stat().st_size, hashlib.sha256()
    add_content(content, path, size)
    return BundleFile(path.name, size, content.hexdigest())
