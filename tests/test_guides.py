"""The guides run, and their pages are rendered from the present text."""

import ast
import importlib.util
import json
import pathlib

import matplotlib
import matplotlib.pyplot as plt
import pytest
from helpers import ROOT, eager_steps

spec = importlib.util.spec_from_file_location(
    "render", ROOT / "guides" / "render.py"
)
render = importlib.util.module_from_spec(spec)
spec.loader.exec_module(render)

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


@pytest.mark.parametrize("path", render.GUIDES, ids=lambda path: path.stem)
def test_guide_runs_small(path, tmp_path, monkeypatch, capsys):
    if path.stem == "from_run_to_app":
        pytest.importorskip("mediapipe", reason="pip install '.[tests]'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    matplotlib.use("agg")
    tree = with_constants(path.read_text("utf-8"), SMALL[path.stem])
    with eager_steps():
        exec(compile(tree, str(path), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out


@pytest.mark.parametrize("path", render.GUIDES, ids=lambda path: path.stem)
def test_pages_are_those_of_the_guide(path):
    """Run `make guides` where it fails: outputs may be stale."""
    cells = render.read_guide(path)
    page = render.PAGES / f"{path.stem}.ipynb"
    notebook = json.loads(page.read_text("utf-8"))
    rendered = [
        (cell["cell_type"], "".join(cell["source"]))
        for cell in notebook["cells"]
    ]
    assert rendered == cells, "run make guides"
    for place, content in render.rendered_files(path.stem, notebook).items():
        assert place.read_bytes() == content, "run make guides"


@pytest.mark.parametrize("path", render.GUIDES, ids=lambda path: path.stem)
def test_guide_has_a_title_block_and_short_lines(path):
    source = path.read_text("utf-8")
    block = render.title_block(ast.get_docstring(ast.parse(source)))
    assert tuple(block) == render.TITLE_BLOCK
    assert max(map(len, source.splitlines())) < 80


def test_no_page_is_left_of_a_guide_that_is_gone():
    names = {path.stem for path in render.GUIDES}
    pages = {path.stem for path in render.PAGES.glob("*.*")}
    assert pages == names


def test_cells_are_texts_and_code_between_them(tmp_path):
    block = "\n".join(f"{field}: x" for field in render.TITLE_BLOCK)
    guide = pathlib.Path(tmp_path, "guide.py")
    guide.write_text(
        f'"""\n{block}\n"""\n\na = "b"\n\n"""\n## Text\n"""\n\na\n'
    )
    title, *cells = render.read_guide(guide)
    assert title[1].startswith("# x\n")
    assert cells == [
        ("code", 'a = "b"'),
        ("markdown", "## Text"),
        ("code", "a"),
    ]
