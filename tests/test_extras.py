"""What needs an extra ends before work, with the line that installs it."""

import pathlib
import re

import pytest

from kdkit.cli.main import MISTAKE, main
from kdkit.data import tfds
from kdkit.errors import UsageError, require_extra
from kdkit.export import onnx, quantization
from kdkit.tasks import TASKS, metrics

ROOT = pathlib.Path(__file__).parent.parent
SETUP = (ROOT / "setup.py").read_text("utf-8")
ABSENT = {"absent": (1, 0)}


@pytest.mark.parametrize(
    "oldest",
    [
        tfds.PACKAGES,
        metrics.PACKAGES,
        onnx.CONVERTER,
        onnx.RUNTIME,
        quantization.PACKAGES,
    ],
    ids=["tfds", "tagging", "onnx", "onnxruntime", "quantization"],
)
def test_setup_asks_for_the_versions_that_are_required(oldest):
    for name, version in oldest.items():
        (allowed,) = re.findall(rf'"{name}>=([\d.]+)"', SETUP)
        assert allowed == ".".join(map(str, version))


def test_installed_packages_are_accepted():
    require_extra("tests", "Tests", {"pytest": (8, 0)})


def test_missing_and_old_packages_are_named_together():
    oldest = {"absent": (1, 0), "pytest": (999, 1)}
    with pytest.raises(UsageError) as error:
        require_extra("tests", "Tests", oldest)
    assert "absent 1.0 or newer, received none" in str(error.value)
    assert "pytest 999.1 or newer, received" in str(error.value)
    assert str(error.value).endswith(
        "Run pip install '.[tests]' in a clone of kdkit."
    )


def test_no_text_installs_kdkit_from_pypi():
    files = [
        path
        for folder in ("kdkit", "docs", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".sh", ".jinja")
    ]
    assert [
        str(path)
        for path in [*files, ROOT / "README.md"]
        if re.search(r"pip install '?kdkit", path.read_text("utf-8"))
    ] == []


def test_a_task_of_spans_needs_seqeval(monkeypatch, tmp_path):
    monkeypatch.setattr(metrics, "PACKAGES", ABSENT)
    TASKS["sst2"].check_data([], tmp_path)
    with pytest.raises(UsageError, match=r"pip install '\.\[tagging\]'"):
        TASKS["conll"].check_data([], tmp_path)


def test_a_verb_without_data_needs_tensorflow_datasets(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(tfds, "PACKAGES", ABSENT)
    run_dir = tmp_path / "run"
    words = ["--task", "cola", "--model", "bert_tiny_en_uncased"]
    status = main(["train-teacher", *words, "--run-dir", str(run_dir)])
    assert status == MISTAKE
    assert "pip install '.[tfds]'" in capsys.readouterr().err
    assert not run_dir.exists()


def test_a_download_needs_tensorflow_datasets(monkeypatch):
    monkeypatch.setattr(tfds, "PACKAGES", ABSENT)
    with pytest.raises(UsageError, match=r"pip install '\.\[tfds\]'"):
        tfds.require_downloader()
