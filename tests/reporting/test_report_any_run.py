"""Reports of runs with any names, events and settings."""

import json
import pathlib

import pytest

from kdkit.cli.main import main
from kdkit.errors import UsageError
from kdkit.reporting import (
    plot_trade_off,
    print_report,
    read_run,
    render_report,
)

EVIL = "<script>alert(1)</script>\x1b]0;owned\x07$\\frac{"


def evil_run(folder):
    run = folder / EVIL.replace("/", "|")
    run.mkdir()
    config = {
        "verb": "distill", "recipe": EVIL, "seed": 1,
        "data": {"task": EVIL},
        "provenance": {"command": EVIL, "versions": {EVIL: EVIL}},
    }  # fmt: skip
    where = {"arm": "student", "stage": EVIL, "epoch": 1}
    events = [
        {"event": "model", "arm": "student", "name": EVIL, "parameters": 1},
        {"event": "epoch", **where, "seconds": 1.0, "logs": {EVIL: 1.0}},
        {"event": "evaluation", **where, "split": "dev", "metrics": {EVIL: 1}},
        {"event": "evaluation", **where, "split": EVIL, "metrics": {EVIL: 1}},
        {"event": "export", "arm": "student", "file": EVIL, "format": EVIL,
         "precision": EVIL, "size_bytes": 1},
        {"event": "measurement", "arm": "student", "corpus": [EVIL],
         "metrics": {"perplexity": 2.0}},
    ]  # fmt: skip
    (run / "config.json").write_text(json.dumps(config))
    (run / "metrics.jsonl").write_text(
        "\n".join(json.dumps({"time": 1.0, **event}) for event in events)
    )
    return run


def test_names_in_a_report_are_no_code(tmp_path, capsys):
    records = read_run(evil_run(tmp_path))
    page = render_report(records)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    print_report(records)
    printed = capsys.readouterr().out
    assert "\x1b]0;" not in page + printed
    assert "\x07" not in page + printed


@pytest.mark.parametrize(
    "event",
    [
        {"event": "epoch", "time": 1.0},
        {"event": "epoch", "time": 1e300, "arm": "a", "stage": "b", "epoch": 1},
        {"event": "evaluation", "time": 1.0, "arm": ["student"]},
        {"event": "run_finished", "time": 1.0, "best": 3, "seconds": 1},
        {"event": "latency", "time": 1.0, "file": 3},
        {"event": "inputs", "time": True},
        {"event": "inputs", "time": 1, "epoch": 10**30},
        {"event": "run_finished", "time": 1, "best": {}},
        *(
            {"event": "run_finished", "time": 1, "seconds": 1, "best": best}
            for best in (
                {"student": "x"},
                {"student": {"metrics": "x"}},
            )
        ),
        {"event": "evaluation", "time": 1, "arm": "student", "split": "dev",
         "epoch": 1, "metrics": {"accuracy": 0.5}},
        *({"event": "epoch", "time": 1, "stage": "a", "epoch": 1, "seconds": 1,
           "logs": {"loss": 1.0}, **other}
          for other in ({"arm": "=1+1"}, {"arm": None}, {"arm": "student",
                        "stage": None}, {"arm": "student", "epoch": -1})),
        {"event": "stage_finished", "time": 1, "arm": "student", "stage": "a",
         "seconds": float("inf")},
        {"event": "export", "time": 1, "arm": "student", "file": "a",
         "format": "litert", "precision": "fp32", "size_bytes": 0},
        {"event": "doctor", "time": 1, "findings": ["x"]},
    ],
)  # fmt: skip
def test_an_event_with_other_fields_is_left_out(event, tmp_path):
    (tmp_path / "config.json").write_text('{"verb": "distill"}')
    (tmp_path / "metrics.jsonl").write_text(f"{json.dumps(event)}\n")
    records = read_run(tmp_path)
    assert records.events == ()
    assert "ignored" in records.remarks[0]
    render_report(records)


def test_numbers_that_cannot_be_shown_are_no_metrics(tmp_path):
    """Nor is there a picture of a student that has no other."""
    (tmp_path / "config.json").write_text('{"verb": "distill"}')
    where = {"event": "evaluation", "time": 1, "stage": None, "split": "dev"}
    measured = {"teacher": {"accuracy": 5.0}, "student": {"accuracy": 1e308}}
    lines = [
        json.dumps({**where, "arm": arm, "examples": 1, "metrics": metrics})
        for arm, metrics in measured.items()
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    records = read_run(tmp_path)
    render_report(records)
    with pytest.raises(UsageError, match="A trade-off plot needs runs"):
        plot_trade_off([[records]])


def test_models_of_no_size_have_no_trade_off(tmp_path):
    (tmp_path / "config.json").write_text('{"verb": "distill"}')
    (tmp_path / "metrics.jsonl").write_text(
        json.dumps({"event": "evaluation", "time": 1, "arm": "student",
                    "split": "dev", "metrics": {"accuracy": 0.5}})
    )  # fmt: skip
    with pytest.raises(UsageError, match="logs have neither"):
        plot_trade_off([[read_run(tmp_path)]])


def test_what_the_system_says_of_a_file_is_one_line(monkeypatch, capsys):
    def run(options):
        pathlib.Path("nowhere").read_text()

    monkeypatch.setattr("kdkit.cli.report.run", run)
    assert main(["report", "."]) == 2
    said = capsys.readouterr().err
    assert "nowhere" in said
    assert said.count("\n") == 1
