"""App bundles: a folder with LiteRT files and everything to run them in an app.

`manifest.json` describes the other files. `test_vectors.jsonl` contains texts
with their token ids and scores, so that an app developer can check a tokenizer
and an interpreter in any language.
"""

import hashlib
import json
import pathlib
import shutil
from collections.abc import Sequence

import numpy as np
import tokenizers

from kdkit import data
from kdkit.errors import RunError, UsageError
from kdkit.export.exporters import open_file, require_free
from kdkit.export.litert_files import LiteRTModel
from kdkit.export.mediapipe import checked_labels
from kdkit.export.texts import TextInputs, difficult_examples
from kdkit.io.files import staged
from kdkit.io.reading import numbered_lines, read_json
from kdkit.models.tokenizer_files import save_vocabulary
from kdkit.models.tokenizer_kinds import as_tokenizer, count_differences
from kdkit.tasks.task import Task
from kdkit.version import __version__

MANIFEST, VECTORS = "manifest.json", "test_vectors.jsonl"
LABELS, TOKENIZER = "labels.txt", "tokenizer.json"
NUM_EXAMPLES = 12  # of the task, among the test vectors
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
) -> dict:
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
        The manifest, a dict: `"models"` with the `"file"`, precision, number
        of parameters, outputs and metrics of each; the names, shapes and types
        of their `"inputs"`; the task and its `"labels"` in the order of the
        scores; the settings of the `"tokenizer"`; the `"tolerance"` of scores
        on other processors; the size and SHA-256 of the other `"files"`.

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
    files = [*map(pathlib.Path, files)]
    if len({file.name for file in files}) < len(files):
        raise UsageError("Two files of a bundle have one name.")
    opened = {file.name: open_file(file) for file in files}
    are_all = all(isinstance(file, LiteRTModel) for file in opened.values())
    lengths = {file.sequence_length for file in opened.values()}
    if not are_all or len(lengths) != 1 or None in lengths:
        raise UsageError(
            "An app bundle needs LiteRT files of one fixed length. Received: "
            f"{sorted(lengths, key=str)}."
        )
    (length,) = lengths
    own, tokenizer = tokenizer, as_tokenizer(tokenizer)
    if count_differences(own, tokenizer):
        raise UsageError(
            f"{TOKENIZER} gives other ids than {type(own).__name__}. Train the "
            "model with a tokenizer from kdkit.models.load_tokenizer."
        )
    _require_vocabulary(tokenizer, opened)
    examples = _with_difficult_ones(examples, task.num_texts)
    batch = TextInputs(tokenizer, length, task.num_texts).encoded(examples)
    names = next(iter(opened.values())).input_names
    batch = {name: batch[name] for name in names}
    with staged(path) as folder:
        folder.mkdir()
        for file in files:
            shutil.copyfile(file, folder / file.name)
        vocabulary = save_vocabulary(tokenizer, folder)
        whole = tokenizer.to_json(length, padded=True)
        (folder / TOKENIZER).write_text(json.dumps(whole), encoding="utf-8")
        if labels:
            _write_lines(folder / LABELS, labels)
        vectors = _vectors(task, examples, batch, opened)
        _write_lines(folder / VECTORS, vectors)
        manifest = {
            "kdkit_version": __version__,
            "task": task.name,
            "kind": task.kind.title,
            "labels": [*labels],
            "num_texts": task.num_texts,
            "models": [
                {
                    "file": name,
                    "precision": file.metadata.precision,
                    "parameters": file.metadata.parameters,
                    "outputs": file.outputs,
                    "metrics": (metrics or {}).get(name),
                }
                for name, file in opened.items()
            ],
            "inputs": [
                {"name": name, "dtype": "int32", "shape": [1, length]}
                for name in names
            ],
            "tokenizer": _in_words(tokenizer, vocabulary, length),
            "tolerance": TOLERANCE,
            "files": [_described(file) for file in sorted(folder.iterdir())],
        }
        _write_lines(folder / MANIFEST, [json.dumps(manifest, indent=2)])
        _verify(folder, path)
    return manifest


def read_bundle(path: str | pathlib.Path) -> dict:
    """Reads the manifest of an app bundle, and checks the other files.

    Args:
        path: string or path. The folder.

    Returns:
        The manifest, as `to_bundle` returns it.

    Raises:
        UsageError: (a `ValueError`) if a file has changed.
    """
    path = pathlib.Path(path)
    manifest = read_json(path / MANIFEST, "the manifest of an app bundle")
    for file in manifest["files"]:
        if _described(path / file["name"]) != file:
            raise UsageError(
                f"{path / file['name']} has another checksum than in "
                f"{MANIFEST}."
            )
    return manifest


def verify_bundle(path: str | pathlib.Path) -> dict:
    """Replays the test vectors of a bundle, without kdkit's tokenizers.

    `tokenizer.json` must give the same ids for every text, and LiteRT scores
    within the manifest's tolerance.

    Args:
        path: string or path. The folder.

    Returns:
        The manifest, as `to_bundle` returns it.

    Raises:
        UsageError: (a `ValueError`) if a file has changed.
        RunError: (a `RuntimeError`) with the first text whose ids or scores
            differ.
    """
    return _verify(pathlib.Path(path), path)


def _verify(folder, path):
    """Does the same as `verify_bundle`, for a folder with a temporary name."""
    manifest = read_bundle(folder)
    rust = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER))
    names = [model["file"] for model in manifest["models"]]
    opened = {name: LiteRTModel(folder / name) for name in names}
    for _, line in numbered_lines(folder / VECTORS):
        vector = json.loads(line)
        encoding = rust.encode(*vector["texts"])
        found = {
            "token_ids": encoding.ids,
            "segment_ids": encoding.type_ids,
            "padding_mask": encoding.attention_mask,
        }
        for name, expected in vector["inputs"].items():
            if found[name] != expected:
                raise RunError(
                    f"{path}: {TOKENIZER} gives other {name} for "
                    f"{vector['texts']!r} than the model's tokenizer. Train "
                    "the model with a tokenizer from a Hugging Face checkpoint "
                    "or a vocabulary file."
                )
        row = {name: [ids] for name, ids in vector["inputs"].items()}
        for name, outputs in vector["outputs"].items():
            (scores,), worst = opened[name](row), np.inf
            if scores.shape == np.shape(outputs["scores"]):
                worst = np.abs(scores - np.array(outputs["scores"])).max()
            if not worst <= manifest["tolerance"]:
                raise RunError(
                    f"{path}: the scores of {name} for {vector['texts']!r} "
                    f"differ by {worst:.3g} from {VECTORS}. Expected at most "
                    f"{manifest['tolerance']:g}."
                )
    return manifest


def _require_vocabulary(tokenizer, opened):
    for name, file in opened.items():
        size = file.metadata.vocabulary_size
        if size is not None and tokenizer.vocabulary_size() > size:
            raise UsageError(
                f"{name} has {size} tokens, its tokenizer "
                f"{tokenizer.vocabulary_size()}."
            )


def _with_difficult_ones(examples, num_texts):
    """Some of the examples, and those on which tokenizers differ."""
    difficult = difficult_examples(num_texts)
    if examples is None:
        return difficult
    some = examples.take(range(min(NUM_EXAMPLES, len(examples))))
    pairs = zip(some.texts, difficult.texts, strict=True)
    return data.Examples(tuple([*one, *other] for one, other in pairs))


def _vectors(task, examples, batch, opened):
    """Yields a line of JSON for each example, run alone as in an app."""
    for number, texts in enumerate(zip(*examples.texts, strict=True)):
        row = {name: ids[number : number + 1] for name, ids in batch.items()}
        outputs = {}
        for name, file in opened.items():
            scores = file(row)
            if scores.shape != (1, task.num_classes):
                raise UsageError(
                    f"{name} has outputs of shape {scores.shape}. Expected the "
                    f"{task.num_classes} classes of task {task.name!r}."
                )
            labels = _predicted(task, file.logits(row))
            outputs[name] = {"scores": scores[0].tolist(), "labels": labels}
        inputs = {name: ids[0].tolist() for name, ids in row.items()}
        vector = {"texts": texts, "inputs": inputs, "outputs": outputs}
        yield json.dumps(vector, ensure_ascii=False)


def _predicted(task, logits):
    """The labels that the logits of one example predict."""
    if task.is_regression:
        return []
    (answer,) = task.kind.predict(logits)
    chosen = [answer] if np.ndim(answer) == 0 else np.flatnonzero(answer)
    return [task.class_names[number] for number in chosen]


def _in_words(tokenizer, vocabulary, length):
    """The settings that an app's own tokenizer needs."""
    ids = {
        "start": tokenizer.start_token_id,
        "end": tokenizer.end_token_id,
        "padding": tokenizer.pad_token_id,
    }
    settings = {}
    if tokenizer.kind == "WordPiece":
        ids["unknown"] = tokenizer.unknown_token_id
        longest = tokenizer.rust.model.max_input_chars_per_word
        settings["max_word_characters"] = longest
    return {
        **settings,
        "kind": KINDS[tokenizer.kind],
        "files": [*vocabulary],
        "lowercase": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "special_tokens": {
            name: {"token": tokenizer.id_to_token(number), "id": number}
            for name, number in ids.items()
        },
        "separators": tokenizer.num_separators,
        "truncation": tokenizer.side,
        "length": length,
    }


def _described(path):
    """A file's entry in the manifest."""
    content = path.read_bytes()
    checksum = hashlib.sha256(content).hexdigest()
    return {"name": path.name, "size_bytes": len(content), "sha256": checksum}


def _write_lines(path, lines):
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in lines)
