"""What needs an extra ends before work, with the line that installs it."""

import sys

import pytest

from kdkit.cli.main import MISTAKE, main
from kdkit.errors import UsageError, require_extra
from kdkit.tasks import TASKS


def test_the_module_and_what_installs_it_are_named():
    require_extra("tests", "pytest")
    with pytest.raises(
        UsageError, match=r"absent .* pip install '\.\[tests\]'"
    ):
        require_extra("tests", "pytest", "absent")


def test_a_task_of_spans_needs_seqeval(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "seqeval", None)
    TASKS["sst2"].check_data([], tmp_path)
    with pytest.raises(UsageError, match=r"pip install '\.\[tagging\]'"):
        TASKS["conll"].check_data([], tmp_path)


def test_a_verb_without_data_needs_tensorflow_datasets(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    run_dir = tmp_path / "run"
    words = ["--task", "cola", "--model", "bert_tiny_en_uncased"]
    status = main(["train-teacher", *words, "--run-dir", str(run_dir)])
    assert status == MISTAKE
    assert "pip install '.[tfds]'" in capsys.readouterr().err
    assert not run_dir.exists()
