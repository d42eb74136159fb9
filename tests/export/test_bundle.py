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


def lines_of(path):
    return (path / "test_vectors.jsonl").read_text("utf-8").splitlines()


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
    assert (bundle.labels, bundle.kind) == (labels, kind.title)
    assert bundle.models[0].metrics == {"accuracy": 0.5}
    assert bundle.inputs[0].shape == (1, LENGTH)
    vectors = [json.loads(line) for line in lines_of(path)]
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
    agree = f"{len(lines_of(path))} test vectors agree\n"
    assert printed.getvalue() == agree


def changed(bundles, path, name, before, after):
    """A copy of a bundle with another file, and its checksum."""
    shutil.copytree(bundles("text")[0], path)
    content = (path / name).read_text("utf-8")
    assert before in content
    content = content.replace(before, after, 1).encode()
    (path / name).write_bytes(content)
    manifest = json.loads((path / "manifest.json").read_text("utf-8"))
    (entry,) = (one for one in manifest["files"] if one["name"] == name)
    entry["size_bytes"] = len(content)
    entry["sha256"] = hashlib.sha256(content).hexdigest()
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path


@pytest.mark.parametrize(
    ("name", "before", "after", "words"),
    [
        (
            "test_vectors.jsonl",
            '"scores": [',
            '"scores": [9, ',
            "scores of stu",
        ),
        ("test_vectors.jsonl", '"scores": [0', '"scores": [9', "scores of stu"),
        (
            "tokenizer.json",
            '"lowercase": true',
            '"lowercase": false',
            "ids for",
        ),
    ],
    ids=["more scores", "a score", "tokenizer"],
)
def test_another_tokenizer_or_other_scores_are_noticed(
    name, before, after, words, bundles, tmp_path
):
    path = changed(bundles, tmp_path / "bundle", name, before, after)
    with pytest.raises(RuntimeError, match=words):
        export.verify_bundle(path)


def test_a_file_of_another_bundle_is_noticed(bundles, tmp_path):
    path, bundle = bundles("text")
    assert export.verify_bundle(path) == bundle
    copy = shutil.copytree(path, tmp_path / "bundle")
    (copy / "labels.txt").write_text("bad\ngood\n")
    with pytest.raises(ValueError, match="labels.txt"):
        export.read_bundle(copy)


def test_a_tokenizer_that_no_tokenizer_json_equals_is_refused(
    written, tmp_path
):
    """keras-hub's own rules convert ß to ss."""
    words = data.sentiment_vocabulary()
    larger = models.word_piece_tokenizer([*words, "strasse"], True)
    plain = keras_hub.tokenizers.BertTokenizer(
        [*words[:-1], "strasse"], lowercase=True
    )
    task, files = task_of(KINDS["text"][0]), [written("litert_int8").file]
    with pytest.raises(ValueError, match="its tokenizer"):
        export.to_bundle(files, tmp_path / "a", task, larger)
    with pytest.raises(RuntimeError, match="token_ids"):
        export.to_bundle(files, tmp_path / "a", task, plain)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("names", "labels", "words"),
    [
        ((), LABELS, "fixed length"),
        (("litert",), LABELS, "fixed length"),
        (("litert_int8", "litert_reader"), LABELS, "fixed length"),
        (("litert_int8",), ("no", "yes"), "2 classes"),
        (("litert_int8",), ("bad\n", "good"), "one line"),
        (("litert_int8",), ("bad", "bad"), "2 different"),
    ],
)
def test_what_does_not_belong_together_is_no_bundle(
    names, labels, words, written, tmp_path
):
    files = [written(name).file for name in names]
    if len(files) == 2:  # which have the same name
        files[1] = shutil.copyfile(files[1], written.path / "other.tflite")
    task, path = task_of(tasks.SingleLabel(labels)), tmp_path / "bundle"
    with pytest.raises(ValueError, match=words):
        export.to_bundle(files, path, task, word_pieces())
    assert not list(tmp_path.iterdir())
