"""Examples of chains of runs, as they are without arguments."""

import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("quick_runs")

ROOT = pathlib.Path(__file__).parents[2]


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
