"""A run says how it was made."""

import sys

from kdkit.training.provenance import VARIABLES
from kdkit.training.provenance import provenance


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


def test_the_command_of_a_script_can_be_given_again(monkeypatch, tmp_path):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    for program in ("examples/own.py", str(tmp_path / "examples/own.py")):
        monkeypatch.setattr(sys, "argv", [program, "--rows", "9"])
        command = provenance()["command"]
        assert command == "python examples/own.py --rows 9"
    monkeypatch.setattr(sys, "argv", ["/somewhere/else/own.py"])
    assert provenance()["command"] == "python own.py"
