"""`kdkit evaluate` repeated, on other rows or in another way."""

import shutil

import pytest

from kdkit.cli.main import main
from kdkit.data import synthetic
from kdkit.reporting import read_run
from kdkit.reporting.notes import measurements


def evaluate(run, *words):
    """What the report says, last, of where the student was measured."""
    assert main(["evaluate", str(run), *words]) == 0
    found = measurements(read_run(run))
    return {where: arms["student"] for where, arms in found.items()}


@pytest.mark.large
def test_a_reports_number_stays_where_others_are_measured(
    finished_run, tmp_path, monkeypatch
):
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    own = evaluate(run)
    assert own.keys() == {"dev"}
    found = evaluate(run, "--sequence-length", "4")
    assert found.keys() == {"dev", "dev, cut to 4 tokens"}
    assert found["dev"] == own["dev"]
    monkeypatch.setitem(synthetic.NUM_EXAMPLES, "dev", 3)
    *before, other = evaluate(run, "--task", "sentiment").items()
    assert dict(before) == found
    where, metrics = other
    assert where.startswith("dev of other data")
    assert metrics["accuracy"] in [
        pytest.approx(count / 3) for count in range(4)
    ]
