"""App bundles: complete, checked before they get a name, and read again."""

import contextlib
import io
import json
import shutil

import keras_hub
import numpy as np
import pytest
from kit.helpers import (
    large_except,
    python_blocks,
    sentiment_student,
    with_random_weights,
)

from kdkit import data, export, models
from kdkit.errors import RunError, UsageError
from kdkit.export.bundle import read_test_vectors
from kdkit.tasks.kinds import MultiLabel, Regression, SingleLabel
from kdkit.tasks.task import Task

LENGTH = 16
KINDS = {
    "text": (SingleLabel(("bad", "good")), 1),
    "pair": (SingleLabel(("no", "maybe", "yes")), 2),
    "regression": (Regression(), 2),
    "multi_label": (MultiLabel(("joy", "fear", "anger")), 1),
}
FILES = {"vocab.txt", "tokenizer.json", "test_vectors.jsonl", "manifest.json"}


def task_of(kind, num_texts):
    return Task("mine", kind, ("accuracy",), "accuracy", num_texts)


def tokenizer():
    return models.word_piece_tokenizer(data.sentiment_vocabulary(), True)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Bundles by the kind of task, each written when a test asks for it.

    At the place that docs/phone.md reads.
    """

    class Bundles(dict):
        def __missing__(self, name):
            root = tmp_path_factory.mktemp(name)
            kind, num_texts = KINDS[name]
            student = with_random_weights(
                sentiment_student(kind.num_classes)[0]
            )
            folder = root / "runs" / "tinybert" / "exports"
            file = folder / "student-int8.tflite"
            export.to_litert(student, file, "int8", sequence_length=LENGTH)
            texts = data.load_sentiment("dev").texts[0][:20]
            bundle = export.to_bundle(
                [file],
                folder / "student-bundle",
                task_of(kind, num_texts),
                tokenizer(),
                data.Examples((texts,) * num_texts),
                {file.name: {"accuracy": 0.5}},
            )
            self[name] = (root, folder / "student-bundle", bundle)
            return self[name]

    return Bundles()


@pytest.mark.parametrize("name", large_except([*KINDS], "text", "pair"))
def test_a_bundle_contains_all_that_an_app_needs(name, written):
    _, path, bundle = written[name]
    kind, num_texts = KINDS[name]
    has_labels = {"labels.txt"} if kind.class_names else set()
    assert {file.name for file in path.iterdir()} == (
        FILES | has_labels | {"student-int8.tflite"}
    )
    assert export.read_bundle(path) == bundle
    assert bundle.labels == (kind.class_names or ())
    assert bundle.kind == kind.title
    assert bundle.models[0].metrics == {"accuracy": 0.5}
    assert bundle.inputs[0].shape == (1, LENGTH)
    vectors = read_test_vectors(path)
    assert len(vectors) > 20
    examples = data.Examples(
        tuple(map(list, zip(*(v.texts for v in vectors), strict=True)))
    )
    encoded = data.encode(examples, tokenizer(), LENGTH)
    batch = encoded.inputs(np.arange(len(encoded)), LENGTH)
    scores = export.open_file(path / "student-int8.tflite")(batch)
    for number, vector in enumerate(vectors):
        for input_name, values in vector.inputs.items():
            np.testing.assert_array_equal(values, batch[input_name][number])
        outputs = vector.outputs["student-int8.tflite"]
        np.testing.assert_allclose(outputs.scores, scores[number], atol=1e-6)
        if isinstance(kind, SingleLabel):
            best = kind.class_names[scores[number].argmax()]
            assert outputs.labels == (best,)
        elif isinstance(kind, MultiLabel):
            limit = 0.5 if bundle.models[0].outputs == "sigmoid" else 0
            assert len(outputs.labels) == (scores[number] > limit).sum()
        else:
            assert outputs.labels == ()


@pytest.mark.parametrize("name", large_except(["text", "pair"], "pair"))
def test_the_sketch_of_the_page_gives_the_test_vectors(
    name, written, monkeypatch
):
    """It imports neither kdkit nor TensorFlow."""
    root, path, _ = written[name]
    (sketch, *_) = python_blocks("phone")
    assert "kdkit" not in sketch.replace("kdkit export", "")
    monkeypatch.chdir(root)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(sketch, "phone.md", "exec"), {})
    lines = (path / "test_vectors.jsonl").read_text("utf-8").splitlines()
    assert printed.getvalue() == f"{len(lines)} test vectors agree\n"


def copy_of(written, folder):
    path = folder / "bundle"
    shutil.copytree(written["text"][1], path)
    return path


def changed(path, file, before, after):
    """Changes a file of a bundle, and its checksum in the manifest."""
    from kdkit.export.bundle import described

    text = (path / file).read_text("utf-8")
    assert before in text
    (path / file).write_text(text.replace(before, after, 1), "utf-8")
    values = json.loads((path / "manifest.json").read_text("utf-8"))
    new = described(path / file)
    for entry in values["files"]:
        if entry["name"] == file:
            entry.update(size_bytes=new.size_bytes, sha256=new.sha256)
    (path / "manifest.json").write_text(json.dumps(values))


def test_another_tokenizer_or_other_scores_are_noticed(written, tmp_path):
    path = copy_of(written, tmp_path)
    assert export.verify_bundle(path) == written["text"][2]
    changed(path, "test_vectors.jsonl", '"scores": [', '"scores": [9, ')
    with pytest.raises(RunError, match="the scores of student-int8.tflite"):
        export.verify_bundle(path)
    path = copy_of(written, tmp_path / "again")
    changed(path, "tokenizer.json", '"lowercase": true', '"lowercase": false')
    with pytest.raises(RunError, match="gives other token_ids for"):
        export.verify_bundle(path)


def test_a_tokenizer_that_no_tokenizer_json_equals_is_refused(
    written, tmp_path
):
    """keras-hub's own rules convert ß to ss."""
    file = written["text"][1] / "student-int8.tflite"
    larger = models.word_piece_tokenizer(
        [*data.sentiment_vocabulary(), "strasse"], True
    )
    task = task_of(*KINDS["text"])
    with pytest.raises(UsageError, match="its tokenizer"):
        export.to_bundle([file], tmp_path / "a", task, larger)
    plain = keras_hub.tokenizers.BertTokenizer(
        [*data.sentiment_vocabulary()[:-1], "strasse"], lowercase=True
    )
    with pytest.raises(RunError, match="other token_ids for"):
        export.to_bundle([file], tmp_path / "a", task_of(*KINDS["text"]), plain)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("names", "labels", "message"),
    [
        ((), ("bad", "good"), "of one fixed length"),
        (("fp32",), ("bad", "good"), "of one fixed length"),
        (("own", "fixed"), ("bad", "good"), "of one fixed length"),
        (("own",), ("no", "maybe", "yes"), "Expected the 3 classes"),
        (("own",), ("bad\n", "good"), "labels of one line"),
        (("own",), ("bad", "bad"), "2 different labels"),
    ],
)
def test_what_does_not_belong_together_is_no_bundle(
    names, labels, message, written, exported, tmp_path
):
    own = written["text"][1] / "student-int8.tflite"
    files = [own if one == "own" else exported[one].file for one in names]
    task = task_of(SingleLabel(labels), 1)
    with pytest.raises(UsageError, match=message):
        export.to_bundle(files, tmp_path / "bundle", task, tokenizer())
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_bundle_is_noticed(written, tmp_path):
    path = copy_of(written, tmp_path)
    (path / "labels.txt").write_text("good\nbad\n")
    with pytest.raises(UsageError, match="labels.txt has another checksum"):
        export.read_bundle(path)
