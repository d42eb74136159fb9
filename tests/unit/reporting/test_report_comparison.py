"""Comparisons of several runs: names, learning curves, trade-offs."""

import xml.etree.ElementTree as ElementTree

import pytest

from kdkit.cli.main import main
from kdkit.errors import UsageError
from kdkit.reporting import (
    group_by_seed,
    plot_learning_curves,
    plot_trade_off,
    read_run,
)
from kdkit.reporting.selection import metric_curve


@pytest.fixture
def runs(make_distillation):
    """Two seeds of one method, and another method without files."""
    made = [
        make_distillation("skip/seed_1", seed=1, student=0.84),
        make_distillation("skip/seed_2", seed=2, student=0.82),
        make_distillation("last", student=0.81, exported=False, task="mrpc"),
    ]
    return [read_run(run.run_dir) for run in made]


@pytest.fixture
def make_curve(make_run):
    """A function of a name that makes a run with three epochs."""

    def make(name, gain=0.05, task="sst2", **config):
        run = make_run(name, {"data": {"task": task}, **config})
        for epoch in (1, 2, 3):
            value = 0.7 + gain * epoch
            run.epoch("student", "fine_tuning", epoch, accuracy=value + 0.05)
            run.evaluation("student", "fine_tuning", epoch, value)
        return read_run(run.run_dir)

    return make


def texts(svg):
    return {
        "".join(element.itertext())
        for element in ElementTree.fromstring(svg).iter(
            "{http://www.w3.org/2000/svg}text"
        )
    }


def test_epochs_on_text_do_not_move_the_curve_of_the_task(make_run):
    run = make_run("small", {"data": {"task": "sst2"}})
    for epoch in (1, 2):
        run.epoch("student", "pretraining", epoch, loss=3.0)
        run.evaluation("student", "pretraining", epoch, 0.2, split="held_out")
    run.epoch("student", "fine_tuning", 1, accuracy=0.8)
    run.evaluation("student", "fine_tuning", 1, 0.7)
    curve = metric_curve(read_run(run.run_dir), "student", "accuracy")
    assert curve.train == ((1, 0.8),)


@pytest.mark.parametrize(
    ("show", "tasks", "message"),
    [
        (plot_learning_curves, ("sst2", "rte"), "several tasks: rte, sst2"),
        (
            lambda runs: plot_trade_off([[run] for run in runs]),
            ("sst2", "rte"),
            "several tasks: rte, sst2",
        ),
        (group_by_seed, ("rte", "rte"), "the same settings and seed"),
    ],
)
def test_mistakes(show, tasks, message, make_curve):
    runs = [
        make_curve(str(number), task=task, seed=0)
        for number, task in enumerate(tasks)
    ]
    with pytest.raises(UsageError, match=message):
        show(runs)


def test_report_writes_tables_and_curves(runs, tmp_path):
    page, curves = tmp_path / "page.md", tmp_path / "curves.svg"
    places = [str(run.run_dir) for run in runs[:2]]
    command = ["report", *places, "--markdown", str(page)]
    assert main([*command, "--curves", str(curves)]) == 0
    assert "### skip: tinybert on sst2, 2 runs: mean" in page.read_text()
    assert {"skip, seed 1", "skip, seed 2"} <= texts(curves.read_text())
    assert (runs[0].run_dir / "comparison.html").is_file()
