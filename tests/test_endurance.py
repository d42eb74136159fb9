"""The tables of docs/measured/reliability.md come from its JSON file."""

import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture
def endurance(monkeypatch):
    """The script, which is in no package."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import endurance

    return endurance


def test_tables_are_of_what_is_kept(endurance):
    kept = json.loads(endurance.KEPT.read_text("utf-8"))
    page = endurance.PAGE.read_text("utf-8")
    assert endurance.with_tables(page, endurance.tables(kept)) == page


def test_readers_and_runs_are_noted_one_by_one(endurance):
    kept = {}
    for reader in ("table", "race"):
        figures = {"executions": 5_000, "finds": 0, "peak_mb": 9, "status": 0}
        found = {"seconds": 600, "readers": {reader: figures}}
        endurance.note(kept, f"fuzz/run.py --readers {reader}", found)
    for run in ("pkd", "tinybert"):
        found = {"runs": {run: {"kills": 4, "identical": 3}}}
        endurance.note(kept, f"benchmarks/kill.py --only {run}", found)
    stages = {
        "stage 1": {
            "epochs": 100,
            "megabytes": [500.5, 501.0],
            "files": [9.0, 9.0],
            "traced_again": 0,
        }
    }
    found = {"steps": 10_000, "steps_per_epoch": 100, "stages": stages}
    endurance.note(kept, "benchmarks/soak.py", found)
    text = endurance.tables(kept)
    for row in (
        "| table | 600 | 5,000 | 0 | 0 | 9 |",
        "| race | 600 | 5,000 | 0 | 0 | 9 |",
        "| conll | – | – | – | 0 | – |",
        "| pkd | 4 | 3 |",
        "| tinybert | 4 | 3 |",
        "| stage 1 | 10,000 | 500.5 to 501 | 9 to 9 | 0 |",
    ):
        assert row in text


def test_a_page_without_the_marks_is_left(endurance):
    with pytest.raises(SystemExit, match="measured"):
        endurance.with_tables("# Reliability\n", "| a |")
