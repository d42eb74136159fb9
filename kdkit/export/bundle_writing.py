"""Writes app bundles: LiteRT files with tokenizer, labels and test vectors."""

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Sequence

import numpy as np

from kdkit import data
from kdkit.errors import UsageError
from kdkit.export import metadata
from kdkit.export.bundle import (
    LABELS,
    MANIFEST,
    TOKENIZER,
    VECTORS,
    Bundle,
    BundleInput,
    BundleModel,
    BundleTokenizer,
    Outputs,
    Runner,
    SpecialToken,
    TestVector,
    described,
    verify,
)
from kdkit.export.exporters import open_file, require_free
from kdkit.export.mediapipe import checked_labels
from kdkit.export.texts import TextInputs, difficult_examples
from kdkit.io.files import staged
from kdkit.models.tokenizer_files import save_vocabulary
from kdkit.models.tokenizer_kinds import as_tokenizer, count_differences
from kdkit.tasks.kinds import MultiLabel
from kdkit.tasks.task import Task
from kdkit.version import __version__

MEANINGS = {
    "token_ids": "ids of the special tokens and the text's tokens, then the "
    "id of the padding token",
    "segment_ids": "0 for the first text and its special tokens, 1 for the "
    "second text and the token at its end, 0 for padding",
    "padding_mask": "1 for tokens, 0 for padding",
}
OUTPUT_MEANINGS = {
    "logits": "logits in the order of the labels",
    "softmax": "probabilities in the order of the labels, with the sum 1",
    "sigmoid": "a probability for each label; predicted above 0.5",
}
SCORE = "the score"  # of a regression
NUM_EXAMPLES = 12  # of the task, among the test vectors
WORD_LENGTH = 100  # characters, of kinds without a limit
KINDS = {
    "WordPiece": "word_pieces",
    "BPE": "byte_pairs",
    "Unigram": "unigrams",
}
TOLERANCE = 0.02  # of a score, between processors


def to_bundle(
    files: Sequence,
    path: str | pathlib.Path,
    task: Task,
    tokenizer,
    examples: data.Examples | None = None,
    metrics: dict[str, dict] | None = None,
    overwrite: bool = False,
) -> Bundle:
    """Writes a folder with everything that an app needs to run a model.

    The folder contains the LiteRT files, the vocabulary, `tokenizer.json` for
    Hugging Face's `tokenizers`, `labels.txt`, `test_vectors.jsonl` and
    `manifest.json`. It gets its name when `verify_bundle` accepts it.

    Args:
        files: sequence of paths of LiteRT files from `kdkit.export.to_litert`
            with one `sequence_length`: one model in several precisions.
        path: string or path. The folder to write.
        task: `kdkit.tasks.Task`. A classification, multi-label task or
            regression of texts or pairs.
        tokenizer: the model's tokenizer, as in `kdkit.data.encode`.
        examples: `kdkit.data.Examples` or `None`. The texts of the first 12
            become test vectors, in addition to texts with accents, other
            scripts, emoji, no characters and too many. Defaults to `None`.
        metrics: dict from a file's name to its metrics, or `None`.
        overwrite: bool. Whether to replace a bundle. Defaults to `False`.

    Returns:
        The `Bundle`.

    Raises:
        UsageError: (a `ValueError`) if the folder exists, or for a file, task
            or tokenizer that a bundle cannot contain. Nothing is written.
        RunError: (a `RuntimeError`) if `tokenizer.json` gives other ids than
            the tokenizer. No folder remains.

    Example:

    ```python
    kdkit.export.to_litert(
        student, "student-int8.tflite", "int8", sequence_length=64
    )
    kdkit.export.to_bundle(
        ["student-int8.tflite"], "bundle", task, tokenizer, task.load("dev")
    )
    ```
    """
    path = pathlib.Path(path)
    require_free(path, overwrite, (path / MANIFEST).is_file())
    labels = ()
    if not task.is_regression:
        labels = checked_labels(task.class_names, task.num_classes)
    files = [pathlib.Path(file) for file in files]
    length = _common_length(files)
    own, tokenizer = tokenizer, as_tokenizer(tokenizer)
    if count_differences(own, tokenizer):
        raise UsageError(
            f"{TOKENIZER} gives other ids than {type(own).__name__}. Train the "
            "model with a tokenizer from kdkit.models.load_tokenizer."
        )
    _require_vocabulary(tokenizer, files)
    examples = _all_examples(task, examples)
    batch = TextInputs(tokenizer, length, task.num_texts).encoded(examples)
    with staged(path) as folder:
        folder.mkdir()
        for file in files:
            shutil.copyfile(file, folder / file.name)
        names = save_vocabulary(tokenizer, folder)
        whole = tokenizer.to_json(length, padded=True)
        (folder / TOKENIZER).write_text(json.dumps(whole), encoding="utf-8")
        if labels:
            _write_lines(folder / LABELS, labels)
        runners = {file: Runner(folder / file.name) for file in files}
        names_of_inputs = runners[files[0]].input_names
        inputs = {name: batch[name] for name in names_of_inputs}
        _write_lines(
            folder / VECTORS,
            (
                json.dumps(dataclasses.asdict(vector), ensure_ascii=False)
                for vector in _vectors(task, examples, inputs, runners)
            ),
        )
        bundle = Bundle(
            __version__,
            task.name,
            task.kind.title,
            labels,
            task.num_texts,
            tuple(
                _model(task, folder / file.name, (metrics or {}).get(file.name))
                for file in files
            ),
            tuple(
                BundleInput(name, "int32", (1, length), MEANINGS[name])
                for name in names_of_inputs
            ),
            _tokenizer_in_words(tokenizer, names, length),
            TOLERANCE,
            tuple(described(file) for file in sorted(folder.iterdir())),
        )
        (folder / MANIFEST).write_text(
            f"{json.dumps(dataclasses.asdict(bundle), indent=2)}\n",
            encoding="utf-8",
        )
        verify(folder, path)
    return bundle


def _common_length(files):
    """Returns the fixed length of all files."""
    if len({file.name for file in map(pathlib.Path, files)}) < len(files):
        raise UsageError("Two files of a bundle have one name.")
    lengths = {open_file(file).sequence_length for file in files}
    if len(lengths) != 1 or None in lengths:
        raise UsageError(
            "An app bundle needs LiteRT files of one fixed length. Received: "
            f"{sorted(lengths, key=str)}."
        )
    return lengths.pop()


def _require_vocabulary(tokenizer, files):
    for file in files:
        size = metadata.read(file).vocabulary_size
        if size is not None and tokenizer.vocabulary_size() > size:
            raise UsageError(
                f"{file.name} has {size} tokens, its tokenizer "
                f"{tokenizer.vocabulary_size()}."
            )


def _all_examples(task, examples):
    """Returns some of the given examples, and the difficult ones."""
    difficult = difficult_examples(task.num_texts)
    if examples is None:
        return difficult
    some = examples.take(range(min(NUM_EXAMPLES, len(examples))))
    return data.Examples(
        tuple(
            [*one, *other]
            for one, other in zip(some.texts, difficult.texts, strict=True)
        )
    )


def _vectors(task, examples, inputs, runners):
    """Yields a test vector for each example."""
    for number, texts in enumerate(zip(*examples.texts, strict=True)):
        row = {name: values[number] for name, values in inputs.items()}
        outputs = {}
        for file, run in runners.items():
            scores = run(row)
            _require_classes(task, scores, file)
            outputs[file.name] = Outputs(
                tuple(scores.tolist()),
                _predicted(task, scores, metadata.read(file).outputs),
            )
        yield TestVector(
            texts,
            {name: tuple(values.tolist()) for name, values in row.items()},
            outputs,
        )


def _require_classes(task, scores, file):
    if scores.shape != (task.num_classes,):
        raise UsageError(
            f"{file.name} has outputs of shape {scores.shape}. Expected the "
            f"{task.num_classes} classes of task {task.name!r}."
        )


def _predicted(task, scores, outputs):
    """Returns the labels that scores predict."""
    if task.is_regression:
        return ()
    if isinstance(task.kind, MultiLabel):
        limit = 0.5 if outputs == "sigmoid" else 0.0
        chosen = np.flatnonzero(scores > limit)
    else:
        chosen = [int(scores.argmax())]
    return tuple(task.class_names[number] for number in chosen)


def _model(task, file, metrics):
    found = metadata.read(file)
    meaning = SCORE if task.is_regression else OUTPUT_MEANINGS[found.outputs]
    return BundleModel(
        file.name,
        found.precision,
        found.parameters,
        found.outputs,
        (1, task.num_classes),
        meaning,
        metrics,
    )


def _tokenizer_in_words(tokenizer, files, length):
    """Returns the settings of a tokenizer."""
    ids = {
        "start": tokenizer.start_token_id,
        "end": tokenizer.end_token_id,
        "padding": tokenizer.pad_token_id,
    }
    longest = WORD_LENGTH
    if tokenizer.kind == "WordPiece":
        ids["unknown"] = tokenizer.unknown_token_id
        longest = tokenizer.rust.model.max_input_chars_per_word
    return BundleTokenizer(
        KINDS[tokenizer.kind],
        files,
        tokenizer.lowercase,
        tokenizer.strip_accents,
        longest,
        {
            name: SpecialToken(tokenizer.id_to_token(number), number)
            for name, number in ids.items()
        },
        tokenizer.num_separators,
        tokenizer.side,
        length,
    )


def _write_lines(path, lines):
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in lines)
