"""A run records how it was made."""

import re
import subprocess
import sys

from kdkit.runs import provenance as module
from kdkit.runs.provenance import VARIABLES, provenance


def test_the_command_has_the_variables_that_change_arithmetic(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/bin/kdkit", "show", "a run"])
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert provenance()["command"] == "kdkit show 'a run'"
    monkeypatch.setenv("TF_SET_ONEDNN_FPMATH_MODE", "BF16")
    assert (
        provenance()["command"]
        == "TF_SET_ONEDNN_FPMATH_MODE=BF16 kdkit show 'a run'"
    )


def test_the_commit_is_marked_if_any_module_was_changed(monkeypatch, tmp_path):
    own = tmp_path / "package" / "runs" / "directory.py"
    other = tmp_path / "package" / "recipes" / "recipe.py"
    for file in (own, other):
        file.parent.mkdir(parents=True)
        file.write_text("one = 1\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(module, "__file__", str(own))
    commit = provenance()["commit"]
    assert re.fullmatch("[0-9a-f]{12}", commit)
    other.write_text("one = 2\n")
    assert provenance()["commit"] == f"{commit} with local changes"
    monkeypatch.setattr(module, "__file__", str(tmp_path.parent / "a/b/c"))
    assert provenance()["commit"] == ""  # reports and cards leave it out
