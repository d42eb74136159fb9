"""Plots: which lines and points they have, and their names."""

import math
import re
import xml.etree.ElementTree as ElementTree

from kdkit.reporting import (
    outcome_pictures,
    plot_losses,
    plot_metric,
    plot_values,
    read_run,
)
from kdkit.reporting.plots import COLORS
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


def test_metric_has_a_line_for_each_arm_and_the_teachers_level(
    distillation_run,
):
    svg = plot_metric(read_run(distillation_run.run_dir))
    assert {"Accuracy on dev (%)", "teacher", "control", "student"} <= set(
        texts(svg)
    )
    for arm, dashed in (("teacher", True), ("student", False)):
        assert num_lines(svg, COLORS[arm], dashed) == LINES_AND_ENTRIES


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
