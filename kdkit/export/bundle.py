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

from kdkit.errors import RunError, UsageError, shortened
from kdkit.export.inputs import INPUT_NAMES
from kdkit.export.litert_files import new_interpreter, usage_errors
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
        UsageError: (a `ValueError`) if the manifest is damaged, or a file is
            missing or has changed.
    """
    path = pathlib.Path(path)
    values = read_json(path / MANIFEST, KIND)
    try:
        bundle = from_dict(Bundle, values)
    except UsageError as error:
        raise _damaged(path / MANIFEST, error) from error
    names = [file.name for file in bundle.files]
    needed = {*(model.file for model in bundle.models), TOKENIZER, VECTORS}
    unsafe = [name for name in names if pathlib.PurePath(name).name != name]
    if unsafe or not needed <= set(names) or not bundle.models:
        raise _damaged(path / MANIFEST, f"the files {shortened(names)}")
    for file in bundle.files:
        if not (path / file.name).is_file():
            raise _damaged(path, f"no {file.name}")
        if described(path / file.name) != file:
            raise _damaged(path / file.name, "other content than its checksum")
    return bundle


def read_test_vectors(path: str | pathlib.Path) -> list[TestVector]:
    """Reads the test vectors of an app bundle."""
    file = pathlib.Path(path) / VECTORS
    vectors = []
    for number, line in numbered_lines(file):
        try:
            vectors.append(from_dict(TestVector, parse_json(line)))
        except UsageError as error:
            raise _damaged(f"{file}, line {number}", error) from error
    return vectors


def verify_bundle(path: str | pathlib.Path) -> Bundle:
    """Replays the test vectors of a bundle, without kdkit's tokenizers.

    `tokenizer.json` must give the same ids for every text, and LiteRT scores
    within the manifest's tolerance.

    Args:
        path: string or path. The folder.

    Returns:
        The `Bundle`.

    Raises:
        UsageError: (a `ValueError`) for a damaged bundle.
        RunError: (a `RuntimeError`) with the first text whose ids or scores
            differ.
    """
    return verify(pathlib.Path(path), pathlib.Path(path))


def verify(folder, path):
    """Does the same as `verify_bundle`, for a folder with a temporary name."""
    bundle = read_bundle(folder)
    try:
        fast = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER))
    except Exception as error:  # tokenizers raises no other class
        raise _damaged(path / TOKENIZER, error) from error
    runners = {
        model.file: Runner(folder / model.file) for model in bundle.models
    }
    for vector in read_test_vectors(folder):
        if not _fits(vector, bundle):
            raise _damaged(path / VECTORS, f"texts {shortened(vector.texts)}")
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
                    f"{shortened(vector.texts)} than the model's tokenizer, so "
                    "the bundle is not usable. Train the model with a "
                    "tokenizer that kdkit read from a Hugging Face checkpoint "
                    "or a vocabulary file."
                )
        for file, outputs in vector.outputs.items():
            scores = runners[file](vector.inputs)
            expected = np.array(outputs.scores)
            worst = np.inf
            if scores.shape == expected.shape:
                worst = np.abs(scores - expected).max()
            if not worst <= bundle.tolerance:
                raise RunError(
                    f"{path}: the scores of {file} for "
                    f"{shortened(vector.texts)} differ by {worst:.3g} from "
                    f"{VECTORS}. Expected at most {bundle.tolerance:g}. "
                    "Export the bundle again."
                )
    return bundle


def _fits(vector, bundle):
    """Whether a test vector has the inputs and outputs in the manifest."""
    lengths = {name: len(row) for name, row in vector.inputs.items()}
    return (
        len(vector.texts) == bundle.num_texts
        and lengths == {one.name: one.shape[-1] for one in bundle.inputs}
        and set(vector.outputs) == {model.file for model in bundle.models}
    )


class Runner:
    """Runs a LiteRT file on one vector, as an app does."""

    def __init__(self, path: pathlib.Path):
        self._path = path
        with usage_errors(path):
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
        with usage_errors(self._path):
            (scores,) = self._run(**arrays).values()
        return scores[0]


def described(path: pathlib.Path) -> BundleFile:
    """Returns a file's entry in the manifest."""
    size, content = path.stat().st_size, hashlib.sha256()
    add_content(content, path, size)
    return BundleFile(path.name, size, content.hexdigest())


def _damaged(path, what):
    return UsageError(
        f"{path} is damaged, or from another version of kdkit. Received: "
        f"{what}. Restore the bundle from a copy, or export it again."
    )
