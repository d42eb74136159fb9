"""The guides run."""

import ast

import matplotlib
import matplotlib.pyplot as plt
import pytest
from kit.helpers import ROOT, eager_steps

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


@pytest.mark.parametrize("name", GUIDES)
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
