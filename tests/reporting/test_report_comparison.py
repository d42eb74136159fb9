"""Several runs beside each other: the table of methods, learning curves."""

import re
import statistics
import xml.etree.ElementTree as ElementTree

import pytest

from kdkit.cli.main import main
from kdkit.reporting import group_by_seed
from kdkit.reporting import markdown_overview
from kdkit.reporting import markdown_results
from kdkit.reporting import plot_learning_curves
from kdkit.reporting import read_run
from kdkit.reporting.canvas import RUN_COLORS
from kdkit.reporting.comparison import run_name


@pytest.fixture
def runs(make_distillation):
    """Two seeds of one method, and another method without files."""
    made = [
        make_distillation("skip/seed_1", seed=1, student=0.84),
        make_distillation("skip/seed_2", seed=2, student=0.82),
        make_distillation("last", student=0.81, exported=False, task="mrpc"),
    ]
    return [read_run(run.run_dir) for run in made]


def rows(table):
    heads, _, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
    ]
    return [dict(zip(heads, line, strict=True)) for line in lines]


def test_overview_has_a_line_for_each_group(runs):
    skip, last = rows(markdown_overview(group_by_seed(runs)))
    assert (skip["task"], skip["run"], skip["runs"]) == ("sst2", "skip", "2")
    deviation = 100 * statistics.stdev([0.84, 0.82])
    assert skip["student, dev"] == f"83.0 ± {deviation:.1f} %"
    assert skip["of teacher"] == f"{100 * 0.83 / 0.8876:.1f} %"
    assert skip["teacher"] == "88.8 ± 0.0 %"
    assert skip["int8 file"] == "14.50 MB, 10× as fast"
    assert (last["task"], last["run"]) == ("mrpc", "last")
    assert last["student, dev"] == "81.0 %"
    assert last["int8 file"] == "–"


def test_overview_stands_before_the_sections(runs):
    text = markdown_results(runs)
    assert text.startswith("| task | run |")
    assert markdown_overview(group_by_seed(runs[:1])) == ""
    assert markdown_results(runs[:1]).startswith("### ")


@pytest.mark.parametrize(
    "name", ["skip", "skip_seed1", "skip-seed-12", "skip/seed_3"]
)
def test_names_of_runs_leave_out_the_seed(name, make_run):
    assert run_name(read_run(make_run(name, {}).run_dir)) == "skip"


def test_learning_curves_have_two_lines_for_each_run(make_run):
    records = []
    for name, gain in (("pkd", 0.05), ("kd", 0.02)):
        run = make_run(name, {"recipe": name, "data": {"task": "sst2"}})
        for epoch in (1, 2, 3):
            value = 0.7 + gain * epoch
            run.epoch("student", "fine_tuning", epoch, accuracy=value + 0.05)
            run.evaluation("student", "fine_tuning", epoch, value)
        records.append(read_run(run.run_dir))
    svg = plot_learning_curves(records)
    texts = {
        "".join(element.itertext())
        for element in ElementTree.fromstring(svg).iter(
            "{http://www.w3.org/2000/svg}text"
        )
    }
    assert {"pkd", "kd"} <= texts
    styles = re.findall(r'style="(fill: none; [^"]*)"', svg)
    for color in RUN_COLORS[:2]:
        drawn = [style for style in styles if color in style]
        assert sum("dasharray" in style for style in drawn) == 1
        assert sum("dasharray" not in style for style in drawn) == 1


def test_report_writes_overview_and_curves(runs, tmp_path):
    page = tmp_path / "README.md"
    page.write_text("<!-- kdkit:results:start -->\n<!-- kdkit:results:end -->")
    curves = tmp_path / "curves.svg"
    command = ["report", *(str(run.run_dir) for run in runs)]
    words = ["--overview", str(page), "--curves", str(curves)]
    assert main([*command, *words]) == 0
    assert "| sst2 | skip |" in page.read_text()
    assert curves.read_text().startswith("<svg")
