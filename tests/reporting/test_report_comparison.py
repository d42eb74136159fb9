"""Comparisons of several runs: names, learning curves, trade-offs."""

import re
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


@pytest.mark.parametrize(
    "name", ["skip", "skip_seed1", "skip-seed-12", "skip/seed_3"]
)
def test_names_of_runs_leave_out_the_seed(name, make_run):
    assert read_run(make_run(name, {}).run_dir).name == "skip"


def test_runs_of_one_command_are_named_after_it(make_run):
    arm = {"provenance": {"command": "kdkit ablate pkd --seeds 0"}}
    found = {
        name: read_run(make_run(name, config).run_dir)
        for name, config in {
            "ptb/full/seed_3": arm,
            "ptb/general_kd/seed_3": arm,
            "ptb/teacher_run": arm,
            "en_de/general_run": {},
        }.items()
    }
    assert [(run.name, run.label) for run in found.values()] == [
        ("ptb_full", "ptb_full_seed3"),
        ("ptb_general_kd", "ptb_general_kd_seed3"),
        ("ptb_teacher", "ptb_teacher"),
        ("en_de_general", "en_de_general"),
    ]


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


def test_learning_curves_have_two_lines_for_each_run(make_curve):
    svg = plot_learning_curves([make_curve("pkd"), make_curve("kd", 0.02)])
    assert {"pkd", "kd"} <= texts(svg)
    styles = re.findall(r'style="(fill: none; [^"]*)"', svg)
    for color in ("#0a63c2", "#b8500b"):
        drawn = [style for style in styles if color in style]
        assert sum("dasharray" in style for style in drawn) == 1
        # One of these is in the legend.
        assert sum("dasharray" not in style for style in drawn) == 2


def test_seeds_of_one_method_are_told_apart(make_curve):
    svg = plot_learning_curves(
        [make_curve(f"pkd/seed_{seed}", seed=seed) for seed in (0, 1)]
    )
    assert {"pkd, seed 0", "pkd, seed 1"} <= texts(svg)


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


def test_a_trade_off_has_a_point_for_each_student_and_teacher(runs):
    svg = plot_trade_off(group_by_seed(runs[:2]))
    (teacher,) = {run.teacher_run.name for run in runs[:2]}
    named = texts(svg)
    assert {"skip, int8 file", f"{teacher}, fp32 file"} <= named
    assert "million parameters" in named
    assert "ms, 1 thread, batch 1, length 128" in named


def test_a_trade_off_without_timed_files_is_against_parameters(runs):
    svg = plot_trade_off(group_by_seed(runs[2:]))
    assert "last" in texts(svg)
    assert not any(text.startswith("ms, ") for text in texts(svg))
