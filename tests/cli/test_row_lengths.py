"""The row length that commands read: the option, the model's, the task's."""

import argparse

import keras_hub
import pytest
from kit.helpers import sentiment_student

from kdkit import models
from kdkit.cli.main import main
from kdkit.cli.models import locate, open_model
from kdkit.tasks import get_task

POSITIONS, OWN = 12, 8
TASK = ["--task", "sentiment"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A classifier as `preset`, saved to read less than it has positions for.

    As `model.keras` next to it, and exported, to read six tokens.
    """
    path = tmp_path_factory.mktemp("lengths")
    classifier, tokenizer = sentiment_student(max_sequence_length=POSITIONS)
    models.save_preset(classifier, tokenizer, path / "preset", OWN)
    classifier.save(path / "model.keras")
    arguments = ["export", str(path / "preset"), *TASK, "--output", str(path)]
    arguments += ["--precision", "fp32", "--sequence-length", "6"]
    assert main(arguments) == 0
    return path


def opened_length(place, tokenizer):
    options = argparse.Namespace(
        task="sentiment", data_dir=None, sequence_length=None
    )
    options.tokenizer = str(tokenizer)
    return open_model(locate(str(place)), options).sequence_length


@pytest.mark.parametrize(
    ("name", "length"),
    [("preset", OWN), ("model.keras", POSITIONS), ("preset-fp32.tflite", 6)],
)
def test_models_outside_of_a_run_are_read_at_their_own_length(
    folder, name, length
):
    assert opened_length(folder / name, folder / "preset") == length


@pytest.mark.parametrize("is_of_kdkit", [True, False])
def test_a_length_that_nobody_chose_is_not_the_models(is_of_kdkit, tmp_path):
    """keras-hub's preprocessors have a length of 512 by default."""
    classifier, tokenizer = sentiment_student()
    usual = keras_hub.models.BertTextClassifierPreprocessor(tokenizer)
    length = usual.sequence_length
    models.save_preset(classifier, tokenizer, tmp_path, length)
    if not is_of_kdkit:
        (tmp_path / "kdkit.json").unlink()
        length = get_task("sentiment").sequence_length
    assert opened_length(tmp_path, tmp_path) == length


def test_rows_beyond_the_length_of_a_file_are_refused(folder, capsys):
    arguments = ["evaluate", str(folder / "preset-fp32.tflite"), *TASK]
    arguments += ["--tokenizer", str(folder / "preset")]
    assert main([*arguments, "--sequence-length", "7"]) == 2
    assert "Use --sequence-length 6." in capsys.readouterr().err
    assert main([*arguments, "--sequence-length", "5"]) == 0


@pytest.mark.parametrize("length", ["0", "-1", "65537", f"{10**20}", "long"])
def test_lengths_of_options_are_in_their_range(length, capsys):
    assert main(["export", "model", "--sequence-length", length]) == 2
    said = capsys.readouterr().err
    assert "expected a number of tokens from 1 to 65536" in said
    assert repr(length) in said
