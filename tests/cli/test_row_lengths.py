"""The row length that commands read: the option, the model's, the task's."""

import keras_hub
import pytest
from kit.adapter import command
from kit.helpers import save_classifier, sentiment_student

from kdkit import export, tasks

POSITIONS, OWN, FIXED = 12, 8, 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A classifier, saved to read less than it has positions for.

    `usual` has the length of keras-hub's preprocessors, 512, from kdkit or not.
    """
    path = tmp_path_factory.mktemp("lengths")
    model, tokenizer = sentiment_student(max_sequence_length=POSITIONS)
    save_classifier(model, tokenizer, path / "preset", OWN)
    model.save(path / "model.keras")
    export.to_litert(model, path / "file.tflite", sequence_length=FIXED)
    longer, _ = sentiment_student()
    usual = keras_hub.models.BertTextClassifierPreprocessor(tokenizer)
    for name in ("usual", "foreign"):
        save_classifier(longer, tokenizer, path / name, usual.sequence_length)
    (path / "foreign" / "kdkit.json").unlink()
    return path


def evaluate(folder, name, *more):
    words = ["evaluate", folder / name, "--task", "sentiment", *more]
    if "." in name:
        words += ["--tokenizer", folder / "preset"]
    return command(words)


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("preset", OWN),
        ("model.keras", POSITIONS),
        ("file.tflite", FIXED),
        ("usual", 512),
        ("foreign", tasks.get_task("sentiment").sequence_length),
    ],
)
def test_models_outside_of_a_run_are_read_at_their_own_length(
    name, length, folder, monkeypatch
):
    read, encode = [], tasks.Task.encode

    def note(task, examples, tokenizer, sequence_length):
        read.append(sequence_length)
        return encode(task, examples, tokenizer, sequence_length)

    monkeypatch.setattr(tasks.Task, "encode", note)
    assert evaluate(folder, name).status == 0
    assert read == [length]


def test_rows_beyond_the_length_of_a_file_are_refused(folder):
    answer = evaluate(folder, "file.tflite", "--sequence-length", FIXED + 1)
    assert answer.status == 2
    assert f"--sequence-length {FIXED}" in answer.err


@pytest.mark.parametrize("length", ["0", "-1", "65537", f"{10**20}", "long"])
def test_lengths_of_options_are_in_their_range(length):
    answer = command(("export", "model", "--sequence-length", length))
    assert answer.status == 2
    assert repr(length) in answer.err
