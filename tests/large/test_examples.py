"""The guides and the other examples run."""

import ast
import os
import pathlib
import runpy
import subprocess
import sys

import matplotlib
import matplotlib.pyplot as plt
import pytest
from kit import encoders
from kit.helpers import ROOT, eager_steps, large_except

from kdkit import data, export, models

GUIDES = sorted(path.stem for path in (ROOT / "docs/guides").glob("*.ipynb"))
TINY = {"NUM_TEXTS": 64, "NUM_DEV_TEXTS": 16, "TEACHER_EPOCHS": 1, "EPOCHS": 1}
SMALL = {  # constants of each guide, in place of its own values
    "from_run_to_app": {**TINY, "TIMED_RUNS": 2},
    "language_model": {
        **TINY,
        "NUM_STUDENT_TEXTS": 32,
        "VOCABULARY_SIZE": 270,
        "LENGTH": 64,
    },
    "patient_kd": {**TINY, "NUM_STUDENT_TEXTS": 32},
    "tinybert_on_your_csv": {
        "NUM_ROWS": 64,
        "TEACHER_EPOCHS": 1,
        "INTERMEDIATE_EPOCHS": 1,
        "PREDICTION_EPOCHS": 1,
    },
    "translator": {
        "NUM_PAIRS": 32,
        "NUM_STUDENT_PAIRS": 32,
        "NUM_DEV_PAIRS": 24,
        "VOCABULARY_SIZE": 320,
        "TEACHER_EPOCHS": 1,
        "EPOCHS": 1,
    },
}


def with_constants(source, values):
    """The syntax tree of a guide with other values of its constants."""
    tree = ast.parse(source)
    left = dict(values)
    for node in tree.body:
        if isinstance(node, ast.Assign):
            name = getattr(node.targets[0], "id", None)
            if name in left:
                node.value = ast.Constant(left.pop(name), lineno=node.lineno)
    assert not left, f"The guide has no constants {sorted(left)}."
    return ast.fix_missing_locations(tree)


@pytest.mark.parametrize("name", large_except(GUIDES, "from_run_to_app"))
def test_guide_runs_small(name, tmp_path, monkeypatch, capsys):
    if name == "from_run_to_app":
        pytest.importorskip("mediapipe", reason="pip install '.[tests]'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    matplotlib.use("agg")
    path = ROOT / "examples" / f"{name}.py"
    tree = with_constants(path.read_text("utf-8"), SMALL[name])
    with eager_steps():
        exec(compile(tree, str(path), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out


@pytest.mark.large
@pytest.mark.parametrize("name", ["lightpaff_gpt2", "lightpaff_mass"])
def test_an_example_runs_to_its_report(name, tmp_path):
    commands = pathlib.Path(sys.executable).parent
    subprocess.run(
        ["bash", ROOT / "examples" / f"{name}.sh"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"},
        check=True,
    )
    (report,) = (tmp_path / "runs").rglob("report.html")
    steps = [path.name for path in report.parent.glob("*_run")]
    assert sorted(steps) == ["general_run", "pretrained_run", "teacher_run"]
    assert list((report.parent / "exports").glob("*-int8.tflite"))


CAPTIONS = ("a fine film", "a dull story", "the acting is great")
LENGTH = 32


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with captions, an embedder and its exported files."""
    folder = tmp_path_factory.mktemp("search")
    (folder / "captions.txt").write_text("\n".join(CAPTIONS) + "\n")
    tokenizer = models.word_piece_tokenizer(data.sentiment_vocabulary(), True)
    encoder = encoders.encoder(
        "bert",
        num_classes=None,
        vocabulary_size=tokenizer.vocabulary_size(),
        max_sequence_length=LENGTH,
    )
    model = models.make_embedder(encoder)
    models.save_embedder(model, tokenizer, folder / "student", LENGTH)
    models.save_sentence_transformer(
        model, tokenizer, folder / "exported", sequence_length=LENGTH
    )
    export.to_litert(model, folder / "student.tflite", sequence_length=LENGTH)
    return folder


@pytest.mark.large
@pytest.mark.parametrize(
    ("script", "files"),
    [
        ("semantic_search", ["student"]),
        (
            "semantic_search_exported",
            ["student.tflite", "exported/tokenizer.json"],
        ),
    ],
)
def test_a_text_is_found_by_itself(script, files, place, monkeypatch, capsys):
    paths = [str(place / name) for name in (*files, "captions.txt")]
    monkeypatch.setattr(sys, "argv", [script, *paths, *CAPTIONS[:2]])
    runpy.run_path(str(ROOT / "examples" / f"{script}.py"))
    lines = capsys.readouterr().out.splitlines()
    for query, nearest in ((0, 1), (len(CAPTIONS) + 1, len(CAPTIONS) + 2)):
        cosine, text = lines[nearest].strip().split(" ", 1)
        assert text == lines[query]
        assert float(cosine) == pytest.approx(1, abs=1e-3)
