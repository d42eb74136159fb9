"""App bundles: complete, checked before they get a name, and read again."""

import contextlib
import functools
import hashlib
import io
import json
import shutil

import keras_hub
import numpy as np
import pytest
from kit.exported import LABELS, LENGTH, classifier, encoded, word_pieces
from kit.helpers import large_except, python_blocks, with_random_weights

from kdkit import data, export, models, tasks

KINDS = {  # the labels are not in the order of the alphabet
    "text": (tasks.SingleLabel(LABELS), 1),
    "pair": (tasks.SingleLabel(("yes", "no", "maybe")), 2),
    "regression": (tasks.Regression(), 2),
    "multi_label": (tasks.MultiLabel(("joy", "anger")), 1),
}
FILES = {"vocab.txt", "tokenizer.json", "test_vectors.jsonl", "manifest.json"}


def task_of(kind, num_texts=1):
    return tasks.Task("mine", kind, ("accuracy",), "accuracy", num_texts)


@pytest.fixture(scope="module")
def bundles(written, tmp_path_factory):
    """A function from a kind of task to a bundle and its place.

    It is at the place that docs/phone.md reads.
    """

    @functools.cache
    def made(name):
        folder = tmp_path_factory.mktemp(name) / "runs" / "tinybert" / "exports"
        kind, num_texts = KINDS[name]
        if kind.num_classes == len(LABELS):
            file = written("litert_int8").file
        else:
            file = folder / "student-int8.tflite"
            student = with_random_weights(classifier(kind.num_classes))
            export.to_litert(student, file, "int8", sequence_length=LENGTH)
        texts = data.load_sentiment("dev").texts[0][:20]
        bundle = export.to_bundle(
            [file],
            folder / "student-bundle",
            task_of(kind, num_texts),
            word_pieces(),
            data.Examples((texts,) * num_texts),
            {"student-int8.tflite": {"accuracy": 0.5}},
        )
        return folder / "student-bundle", bundle

    return made


def vectors_of(path):
    lines = (path / "test_vectors.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", large_except([*KINDS], "text", "pair"))
def test_a_bundle_contains_all_that_an_app_needs(name, bundles):
    path, bundle = bundles(name)
    kind, num_texts = KINDS[name]
    labels = kind.class_names or ()
    has_labels = {"labels.txt"} if labels else set()
    assert {file.name for file in path.iterdir()} == (
        FILES | has_labels | {"student-int8.tflite"}
    )
    if labels:
        assert tuple((path / "labels.txt").read_text().split()) == labels
    assert export.read_bundle(path) == bundle
    assert (bundle["labels"], bundle["kind"]) == ([*labels], kind.title)
    assert bundle["models"][0]["metrics"] == {"accuracy": 0.5}
    assert bundle["inputs"][0]["shape"] == [1, LENGTH]
    vectors = vectors_of(path)
    assert len(vectors) > 20
    columns = zip(*(vector["texts"] for vector in vectors), strict=True)
    batch = encoded(*columns)
    file = export.open_file(path / "student-int8.tflite")
    for number, (vector, scores) in enumerate(
        zip(vectors, file(batch), strict=True)
    ):
        for input_name, values in vector["inputs"].items():
            np.testing.assert_array_equal(values, batch[input_name][number])
        found = vector["outputs"]["student-int8.tflite"]
        np.testing.assert_allclose(found["scores"], scores, atol=1e-6)
        if name == "multi_label":
            assert len(found["labels"]) == (scores > 0).sum()
        else:
            expected = [labels[scores.argmax()]] if labels else []
            assert found["labels"] == expected


@pytest.mark.parametrize("name", ["text", "pair"])
def test_the_sketch_of_the_page_gives_the_test_vectors(
    name, bundles, monkeypatch
):
    """It imports neither kdkit nor TensorFlow."""
    path, _ = bundles(name)
    (sketch, *_) = python_blocks("phone")
    assert "kdkit" not in sketch.replace("kdkit export", "")
    monkeypatch.chdir(path.parents[3])
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(sketch, "phone.md", "exec"), {})
    agree = f"{len(vectors_of(path))} test vectors agree\n"
    assert printed.getvalue() == agree


CHANGES = {  # of a file: before, after, and what the error names
    "a score": ("test_vectors.jsonl", b'scores": [0', b'scores": [9', "scores"),
    "tokenizer": ("tokenizer.json", b'case": true', b'case": false', "ids for"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_tokenizer_or_other_scores_are_noticed(
    change, bundles, tmp_path
):
    """Although their checksum is in the manifest."""
    name, before, after, words = CHANGES[change]
    path = shutil.copytree(bundles("text")[0], tmp_path / "bundle")
    old = (path / name).read_bytes()
    new = old.replace(before, after, 1)
    (path / name).write_bytes(new)
    manifest = (path / "manifest.json").read_text("utf-8")
    for fact in (
        lambda content: f'"size_bytes": {len(content)}',
        lambda content: hashlib.sha256(content).hexdigest(),
    ):
        manifest = manifest.replace(fact(old), fact(new))
    (path / "manifest.json").write_text(manifest, "utf-8")
    with pytest.raises(RuntimeError, match=words):
        export.verify_bundle(path)


def test_a_file_of_another_bundle_is_noticed(bundles, tmp_path):
    path, bundle = bundles("text")
    assert export.verify_bundle(path) == bundle
    copy = shutil.copytree(path, tmp_path / "bundle")
    (copy / "labels.txt").write_text("bad\ngood\n")
    with pytest.raises(ValueError, match="labels.txt"):
        export.read_bundle(copy)


def larger():
    words = data.sentiment_vocabulary()
    return models.word_piece_tokenizer([*words, "strasse"], True)


def of_keras_hub():
    """keras-hub's own rules convert ß to ss."""
    words = [*data.sentiment_vocabulary()[:-1], "strasse"]
    return keras_hub.tokenizers.BertTokenizer(words, lowercase=True)


INT8 = ("litert_int8",)
MISTAKES = {  # files, labels, tokenizer, and what the error names
    "no file": ((), LABELS, word_pieces, "fixed length"),
    "any length": (("litert",), LABELS, word_pieces, "fixed length"),
    "lengths": ((*INT8, "litert_reader"), LABELS, word_pieces, "fixed length"),
    "classes": (INT8, ("no", "yes"), word_pieces, "2 classes"),
    "lines": (INT8, ("bad\n", "good", "fair"), word_pieces, "one line"),
    "equal": (INT8, ("bad", "bad", "good"), word_pieces, "3 different"),
    "larger": (INT8, LABELS, larger, "its tokenizer"),
    "keras-hub's": (INT8, LABELS, of_keras_hub, "other ids than"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_does_not_belong_together_is_no_bundle(name, written, tmp_path):
    names, labels, tokenizer, words = MISTAKES[name]
    files = [written(name).file for name in names]
    if len(files) == 2:  # which have the same name
        files[1] = shutil.copyfile(files[1], written.path / "other.tflite")
    task, path = task_of(tasks.SingleLabel(labels)), tmp_path / "bundle"
    with pytest.raises((ValueError, RuntimeError), match=words):
        export.to_bundle(files, path, task, tokenizer())
    assert not list(tmp_path.iterdir())
