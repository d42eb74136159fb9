"""Plots: which lines and points they have, and their names."""

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from kdkit.reporting import (
    outcome_pictures,
    plot_losses,
    plot_metric,
    plot_values,
    read_run,
)
from kdkit.reporting.plots import COLORS, draw
from kdkit.reporting.trade_off import latency_setting

# The second line of a colour in SVG is its entry in the legend.
LINES_AND_ENTRIES = 2


def texts(svg):
    """The texts of a picture, which must be well-formed XML."""
    root = ElementTree.fromstring(svg)
    return [
        "".join(element.itertext())
        for element in root.iter("{http://www.w3.org/2000/svg}text")
    ]


def test_titles_fit_their_pictures():
    def paint(left, right):
        right.set_title("Accuracy on dev (%) against a latency in milliseconds")

    title = "soft cross entropy less teacher's entropy"
    svg = draw(title, paint, size=(320, 210), columns=2)
    sizes = re.findall(r"font-weight: 700; font-size: ([\d.]+)px", svg)
    # At 12 px they are 277 and 364 wide in DejaVu Sans; an axis is 270.
    assert [round(float(size), 1) for size in sizes] == [11.7, 8.9]
    assert "font-size: 12px" in draw("loss", lambda axes: None)


def num_lines(svg, color, dashed=False):
    """How many lines are drawn in a colour, with those of the legend."""
    styles = re.findall(r'style="(fill: none; [^"]*)"', svg)
    return sum(
        color in style and ("dasharray" in style) == dashed for style in styles
    )


def test_losses_have_a_picture_for_each_objective(distillation_run):
    stages = plot_losses(read_run(distillation_run.run_dir))
    assert {
        (stage.arm, stage.stage): [*stage.pictures] for stage in stages
    } == {
        ("student", "intermediate_layer"): [
            "loss",
            "attention MSE",
            "hidden state MSE",
        ],
        ("student", "prediction_layer"): ["loss"],
        ("control", "fine_tuning"): ["loss"],
    }
    (svg,) = stages[-1].pictures.values()
    assert {"loss", "training", "dev", "epoch"} <= set(texts(svg))
    for dashed in (False, True):
        assert num_lines(svg, COLORS["control"], dashed) == LINES_AND_ENTRIES
    # The same numbers give the same file.
    (again,) = plot_losses(read_run(distillation_run.run_dir))[
        -1
    ].pictures.values()
    assert again == svg


def test_loss_that_spans_decades_has_a_logarithmic_axis(make_run):
    run = make_run("run", {})
    for epoch in range(1, 5):
        run.epoch(
            "student",
            "intermediate_layer",
            epoch,
            attention_mse=100.0 / 10**epoch,
            hidden_state_mse=5.0 - epoch,
        )
    (stage,) = plot_losses(read_run(run.run_dir))
    attention, hidden = stage.pictures.values()
    assert {"0.01", "0.1", "1", "10"} <= set(texts(attention))
    assert {"1", "2", "3", "4"} <= set(texts(hidden))
    assert "0.1" not in texts(hidden)


def test_loss_of_a_single_objective_is_drawn_once(make_run):
    run = make_run("run", {})
    run.epoch(
        "student", "prediction_layer", 1, soft_cross_entropy=0.4, loss=0.4
    )
    (stage,) = plot_losses(read_run(run.run_dir))
    assert [*stage.pictures] == ["soft cross entropy"]


def test_losses_without_the_teachers_entropy_say_so(make_run):
    run = make_run("run", {})
    run.epoch("control", "fine_tuning", 1, loss=0.4, x=1.0)
    for epoch in (1, 2):
        run.log(
            "epoch",
            arm="student",
            stage="fine_tuning",
            epoch=epoch,
            seconds=1.0,
            logs={"loss": 0.4, "val_loss": 0.5, "x": 1.0},
            less_teacher_entropy=["soft", "loss"],
        )
    control, student = plot_losses(read_run(run.run_dir))
    assert [*control.pictures] == ["loss", "x"]
    assert [*student.pictures] == ["loss less teacher's entropy", "x"]


def test_metric_has_a_line_for_each_arm_and_the_teachers_level(
    distillation_run,
):
    svg = plot_metric(read_run(distillation_run.run_dir))
    assert {"Accuracy on dev (%)", "teacher", "control", "student"} <= set(
        texts(svg)
    )
    for arm, dashed in (("teacher", True), ("student", False)):
        assert num_lines(svg, COLORS[arm], dashed) == LINES_AND_ENTRIES


def test_metric_of_a_teachers_run_is_a_curve(make_run):
    run = make_run("run", {})
    for epoch, accuracy in ((1, 0.8), (2, 0.8001)):
        run.evaluation("teacher", "fine_tuning", epoch, accuracy)
    records = read_run(run.run_dir)
    assert plot_losses(records) == []
    svg = plot_metric(records)
    assert num_lines(svg, COLORS["teacher"]) == LINES_AND_ENTRIES
    # The axis is not so narrow that noise would look like a result.
    assert {"79.5", "80.0", "80.5"} <= set(texts(svg))


def test_latency_names_the_files_timed_in_the_commonest_setting(
    distillation_run,
):
    file = distillation_run.export("control", "int8", 0.78)
    distillation_run.latency(file, 3.0, threads=2)
    records = read_run(distillation_run.run_dir)
    assert latency_setting(records).threads == 1
    pictures = outcome_pictures(records)
    assert [*pictures] == ["latency", "size"]
    found = set(texts(pictures["latency"]))
    labels = {"teacher fp32", "student fp32", "student fp16", "student int8"}
    assert labels <= found
    assert {"10", "20", "50"} <= found
    assert "control int8" not in found
    assert "control int8" in texts(pictures["size"])


def test_outcome_without_files_is_drawn_against_parameters(make_distillation):
    records = read_run(
        make_distillation("run", teacher="x", exported=False).run_dir
    )
    (svg,) = outcome_pictures(records, chance=0.5).values()
    names = {"teacher", "control", "student", "chance", "million parameters"}
    assert names <= set(texts(svg))


def test_outcome_has_the_control_at_the_cost_of_the_student(distillation_run):
    pictures = outcome_pictures(read_run(distillation_run.run_dir))
    for svg in pictures.values():
        assert "control" in texts(svg)


def test_pictures_of_nothing_are_empty(make_run):
    run = make_run("run", {"recipe": "tinybert", "teacher": "x"})
    run.latency(run.export("student", "int8"), 5.0)  # not evaluated
    records = read_run(run.run_dir)
    assert plot_losses(records) == []
    assert plot_metric(records) == ""
    assert outcome_pictures(records) == {}


def test_values_have_a_line_and_a_name_for_each_model():
    curves = {
        "distilled": [(0, [400.0]), (1, [500.0, 600.0])],
        "a control with a $long_name$": [(0, [400.0]), (1, [6000.0, 5000.0])],
        "_日本": [(0, [400.0])],
        "diverged": [(0, [math.nan])],
        "not run": [],
    }
    found = texts(plot_values(curves, "word_perplexity", "", "an axis"))
    assert {"distilled", "a control with a $long_name$", " _日本"} <= set(found)
    assert {"an axis", "1000"} <= set(found)
    assert not {"diverged", "not run"} & set(found)


@pytest.mark.parametrize(
    ("last", "hollow"),
    [([0.8, 0.7, 0.6], 0), ([0.8, math.nan, math.nan], 1), ([math.nan], 0)],
)
def test_points_are_hollow_where_seeds_have_no_value(last, hollow):
    svg = plot_values({"it": [(0, [0.9]), (1, last)]}, "accuracy", "", "x")
    note = "hollow: without the seeds that were not finite"
    assert texts(svg).count(note) == hollow
