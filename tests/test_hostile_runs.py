"""Hostile runs: any names, events and settings."""

import errno
import json
import pathlib

import pytest

from kdkit.cli.main import main
from kdkit.errors import RunError, UsageError
from kdkit.io.disk import describe
from kdkit.io.reading import json_lines, numbered_lines, read_json
from kdkit.reporting import (
    plot_trade_off,
    print_report,
    read_run,
    render_report,
)
from kdkit.runs.directory import RunDirectory, open_run
from kdkit.runs.events import Inputs
from kdkit.teacher_cache.index import Index

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
                {"student": {"averaged_epochs": [1, 2], "metrics": {}}},
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


def test_names_that_are_too_long_are_no_files(tmp_path):
    config = json.dumps({"verb": "distill", "teacher": "0" * 5000})
    (tmp_path / "config.json").write_text(config)
    assert read_run(tmp_path).teacher_run is None
    assert "a shorter name" in describe("0" * 5000, errno.ENAMETOOLONG)


@pytest.mark.parametrize(
    "name", [".lock", "metrics.jsonl", "checkpoints", "student/labels.json"]
)
def test_a_run_with_links_to_elsewhere_is_left_alone(name, tmp_path, capsys):
    """By them going on, or noting an export, would change a user's files."""
    settings, run = {"seed": 0}, tmp_path / "run"
    with open_run(run, settings) as made:
        made.write_config(settings, {})
        made.log(Inputs(digests={}))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (run / name).unlink(missing_ok=True)
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).symlink_to(victim)
    with (
        pytest.raises((UsageError, RunError), match=r" link"),
        open_run(run, settings),
    ):
        pass
    assert main(["evaluate", str(run)]) == 2
    assert "outside of" in capsys.readouterr().err
    assert victim.read_text() == "precious"


def test_logs_and_locks_are_not_written_through_links(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "metrics.jsonl").symlink_to(victim)
    (tmp_path / ".index.lock").symlink_to(victim)
    with pytest.raises(RunError, match=r"metrics.jsonl cannot .*a link"):
        RunDirectory(tmp_path).log(Inputs(digests={}))
    with pytest.raises(RunError, match=r"index.lock cannot .*a link"):
        Index(tmp_path, {"teacher": "a"}).note("agreement", {})
    assert victim.read_text() == "precious"


NAMES = {
    "long": "a" * 5000,
    "of many parts": "/".join("b" * 3000),
    "with a zero byte": "a\0b",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_that_no_file_can_have_is_one_line(name, capsys):
    for arguments in (
        ["report", name],
        ["export", name],
        ["generate", name, "--prompt", "a"],
        ["evaluate", name, "--task", "sst2"],
    ):
        assert main(arguments) in (1, 2)
        assert capsys.readouterr().err.count("\n") == 1
    for read in (
        lambda: read_json(name, "settings"),
        lambda: list(numbered_lines(name)),
        lambda: list(json_lines(name)),
    ):
        with pytest.raises(UsageError, match="Cannot read"):
            read()


def test_what_the_system_says_of_a_file_is_one_line(monkeypatch, capsys):
    def run(options):
        pathlib.Path("nowhere").read_text()

    monkeypatch.setattr("kdkit.cli.report.run", run)
    assert main(["report", "."]) == 1
    said = capsys.readouterr().err
    assert "nowhere cannot be written or read: No such file" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_teacher_whose_name_no_file_can_have_is_no_run(name, tmp_path):
    run = evil_run(tmp_path)
    for teacher in (name, f"{run}/{name}"):
        config = {"verb": "distill", "teacher": teacher}
        (run / "config.json").write_text(json.dumps(config))
        assert read_run(run).teacher_run is None
