"""Pictures: which lines and points they have, and their names."""

import statistics

import pytest
from kit.reports import svg_texts

from kdkit.reporting import (
    plot_losses,
    plot_metric,
    plot_trade_off,
    plot_values,
)

GAP = 0.05  # of a student to its teacher


def test_losses_have_a_picture_for_each_objective(distillation_run, drawn):
    found = plot_losses(distillation_run.records)
    assert [*found] == [
        "Student, intermediate layer: attention MSE",
        "Student, intermediate layer: hidden state MSE",
        "Student, intermediate layer: loss",
        "Student, prediction layer: loss",
        "Control, fine tuning: loss",
    ]
    (across, train, _), (_, dev, style) = [one[1:] for one in drawn[:2]]
    assert across == (1, 2, 3)
    assert train == pytest.approx([4.1, 4.1 / 2**1.5, 4.1 / 3**1.5])
    assert dev == pytest.approx([1.07 * one for one in train])
    assert style["linestyle"] == "--"
    svg = found["Control, fine tuning: loss"]
    assert {"loss", "epoch"} <= set(svg_texts(svg))
    # The same numbers give the same file.
    assert plot_losses(distillation_run.records) == found


def test_an_epoch_that_was_repeated_counts_once(make_run, drawn):
    run = make_run("run")
    for epoch, loss in ((1, 3.0), (2, 9.0), (2, 2.0)):
        run.epoch("student", "prediction_layer", epoch, loss=loss)
    plot_losses(run.records)
    ((_, across, up, _),) = drawn
    assert (across, up) == ((1, 2), (3.0, 2.0))


def test_metric_has_a_line_for_each_arm_over_all_stages(
    distillation_run, drawn
):
    svg = plot_metric([distillation_run.records])
    assert {"Accuracy (%)", "teacher", "control", "student"} <= set(
        svg_texts(svg)
    )
    lines = {label: across for label, across, *_ in drawn}
    assert lines == {"control": (*range(1, 7),), "student": (*range(1, 7),)}


def test_epochs_on_text_do_not_move_the_curve_of_the_task(make_run, drawn):
    run = make_run("small")
    for epoch in (1, 2):
        run.epoch("student", "pretraining", epoch, loss=3.0)
        run.evaluation("student", "pretraining", epoch, 0.2, split="held_out")
    run.epoch("student", "fine_tuning", 1, accuracy=0.8)
    run.evaluation("student", "fine_tuning", 1, 0.7)
    plot_metric([run.records])
    points = [(across, up) for _, across, up, _ in drawn]
    assert points == [((1,), (70.0,)), ((1,), (80.0,))]


def test_pictures_of_nothing_are_empty(make_run):
    run = make_run("run")
    run.latency(run.export("student", "int8"), 5.0)  # not evaluated
    assert plot_losses(run.records) == {}
    assert plot_metric([run.records]) == ""
    assert plot_trade_off([run.records]) == ""


def test_values_have_a_line_and_their_names():
    points = [(0, 400.0), (1, 600.0)]
    svg = plot_values(points, "word_perplexity", " of $x", "a $long_name$")
    assert {"Word perplexity of $x", "a $long_name$"} <= set(svg_texts(svg))


@pytest.fixture
def points(drawn):
    """A function of runs: their points by label, as (cost, percent)."""

    def find(*runs):
        drawn.clear()
        plot_trade_off(runs)
        found = {}
        for label, across, up, _ in drawn:
            found.setdefault(label, []).append((across, round(up, 9)))
        return found

    return find


def test_a_run_has_points_for_models_and_files(distillation_run, points):
    # In the setting in which most files were timed.
    file = distillation_run.export("control", "int8", 0.78)
    distillation_run.latency(file, 3.0, threads=2)
    found = points(distillation_run.records)
    assert found["student"] == [(14.35025, 83.79)]
    assert found["teacher, LiteRT fp32"] == [(91.2, 88.76), (61.3, 88.76)]
    assert found["student, LiteRT int8"] == [(14.5, 83.68), (5.93, 83.68)]
    assert found["control, LiteRT int8"] == [(57.6, 78.0)]


@pytest.fixture
def make_student(make_run):
    """A function of a name, its teacher and that one's accuracy."""

    def make(name, teacher, accuracy, seed=0, **fields):
        fields |= {"teacher": [str(teacher)], "training": {"seed": seed}}
        run = make_run(name, **fields)
        run.evaluation("teacher", None, None, accuracy)
        run.evaluation("student", "fine_tuning", 1, accuracy - GAP)
        for arm in ("teacher", "student"):
            run.model(arm)
        return run.records

    return make


def test_each_model_has_a_point_under_its_own_name(make_student, points):
    found = points(
        make_student("a", "small/bert", 0.9, recipe="pkd"),
        make_student("b", "large/bert", 0.95),
        make_student("c", "large/bert", 0.95, recipe="kd"),
    )
    assert {name: up for name, ((_, up),) in found.items()} == {
        "small/bert, teacher": 90,
        "large/bert, teacher": 95,
        "a, student": 85,
        "b, student": 90,
        "c, student": 90,
    }


@pytest.mark.parametrize("seeds", [(2,), (1, 2)])
def test_seeds_of_a_teacher_are_one_point_of_their_mean(
    make_student, make_run, points, seeds
):
    accuracies = {0: 0.9, 1: 0.92, 2: 0.97}
    teachers = {
        seed: make_run(
            f"teacher_seed{seed}", "teacher", training={"seed": seed}
        ).run_dir
        for seed in accuracies
    }
    students = {"kd": (0, 1), "pkd": seeds}
    runs = [
        make_student(
            f"{recipe}_seed{seed}",
            teachers[seed],
            accuracies[seed],
            seed,
            recipe=recipe,
        )
        for recipe, those in students.items()
        for seed in those
    ]
    means = {
        f"{recipe}, student": statistics.fmean(
            accuracies[seed] - GAP for seed in those
        )
        for recipe, those in students.items()
    }
    means["teacher, teacher"] = statistics.fmean(accuracies.values())
    assert {name: up for name, ((_, up),) in points(*runs).items()} == {
        name: pytest.approx(100 * mean) for name, mean in means.items()
    }
