import itertools
import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from kdkit.reporting.canvas import COLORS
from kdkit.reporting.canvas import log_ticks
from kdkit.reporting.curve_plots import plot_losses
from kdkit.reporting.curve_plots import plot_metric
from kdkit.reporting.curves import loss_curves
from kdkit.reporting.labels import place_labels
from kdkit.reporting.labels import stack_labels
from kdkit.reporting.latency_plot import latency_setting
from kdkit.reporting.latency_plot import plot_latency
from kdkit.reporting.records import read_run
from kdkit.reporting.value_plot import plot_noise


def texts(svg):
    """The texts of a picture, which must be well-formed XML."""
    root = ElementTree.fromstring(svg)
    return [
        "".join(element.itertext())
        for element in root.iter("{http://www.w3.org/2000/svg}text")
    ]


def num_lines(svg, color, dashed=False):
    """How many lines are drawn in a colour."""
    styles = re.findall(r'style="(fill: none; [^"]*)"', svg)
    return sum(
        COLORS[color] in style and ("dasharray" in style) == dashed
        for style in styles
    )


def overlap(one, other):
    return (min(one[2], other[2]) > max(one[0], other[0])) and min(
        one[3], other[3]
    ) > max(one[1], other[1])


def test_losses_have_a_picture_for_each_objective(distillation_run):
    stages = plot_losses(read_run(distillation_run.run_dir))
    found = {
        (stage.arm, stage.stage): [texts(svg)[-1] for svg in stage.pictures]
        for stage in stages
    }
    assert found == {
        ("student", "intermediate_layer"): [
            "loss",
            "attention MSE",
            "hidden state MSE",
        ],
        ("student", "prediction_layer"): ["loss"],
        ("control", "fine_tuning"): ["loss"],
    }


def test_losses_are_solid_for_training_and_dashed_for_dev(distillation_run):
    *_, control = plot_losses(read_run(distillation_run.run_dir))
    (svg,) = control.pictures
    assert num_lines(svg, "control") == 1
    assert num_lines(svg, "control", dashed=True) == 1


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
    ((attention, hidden),) = [
        stage.pictures for stage in plot_losses(read_run(run.run_dir))
    ]
    assert {"0.01", "0.1", "1", "10"} <= set(texts(attention))
    assert {"1", "2", "3", "4"} <= set(texts(hidden))
    assert "0.1" not in texts(hidden)


def test_loss_of_a_single_objective_is_drawn_once(make_run):
    run = make_run("run", {})
    run.epoch(
        "student", "prediction_layer", 1, soft_cross_entropy=0.4, loss=0.4
    )
    ((svg,),) = [stage.pictures for stage in plot_losses(read_run(run.run_dir))]
    assert texts(svg)[-1] == "soft cross entropy"


def test_losses_with_and_without_the_teachers_entropy_are_apart(make_run):
    """As of a run that kdkit 0.1 began and a later version went on with."""
    run = make_run("run", {})
    for epoch in (1, 2):
        run.epoch("student", "fine_tuning", epoch, loss=69.4 - epoch / 10, x=2)
    run.log(
        "epoch",
        arm="student",
        stage="fine_tuning",
        epoch=3,
        step=3,
        seconds=1.0,
        logs={"loss": 0.4, "val_loss": 0.5, "x": 1.0},
        less_teacher_entropy=["soft", "loss"],
    )
    records = read_run(run.run_dir)
    curves = {
        (curve.name, curve.less_entropy): [epoch for epoch, _ in curve.train]
        for curve in loss_curves(records)
    }
    assert curves == {
        ("loss", False): [1, 2],
        ("loss", True): [3],
        ("x", False): [1, 2, 3],
    }
    (stage,) = plot_losses(records)
    titles = [texts(svg)[-1] for svg in stage.pictures]
    assert titles == ["loss", "loss less teacher's entropy", "x"]


def test_metric_shows_arms_and_the_teachers_level(distillation_run):
    svg = plot_metric(read_run(distillation_run.run_dir))
    found = texts(svg)
    assert "Accuracy on dev (%)" in found
    assert {"teacher", "control", "student"} <= set(found)
    assert {"intermediate layer", "prediction layer"} <= set(found)
    assert num_lines(svg, "teacher", dashed=True) == 1
    assert num_lines(svg, "student") == 1


def test_metric_of_a_teachers_run_is_a_curve(make_run):
    run = make_run("run", {})
    for epoch in (1, 2):
        run.evaluation("teacher", "fine_tuning", epoch, 0.8)
    assert plot_losses(read_run(run.run_dir)) == []
    assert num_lines(plot_metric(read_run(run.run_dir)), "teacher") == 1


def test_latency_labels_every_timed_file(distillation_run):
    found = texts(plot_latency(read_run(distillation_run.run_dir)))
    labels = {"teacher fp32", "student fp32", "student fp16", "student int8"}
    assert labels <= set(found)


def test_latency_takes_the_setting_of_most_files(distillation_run):
    file = distillation_run.export("control", "int8", 0.78)
    distillation_run.latency(file, 3.0, threads=2)
    records = read_run(distillation_run.run_dir)
    assert latency_setting(records).threads == 1
    assert "control int8" not in texts(plot_latency(records))


def test_pictures_of_nothing_are_empty(make_run):
    run = make_run("run", {"recipe": "tinybert", "teacher": "x"})
    run.latency(run.export("student", "int8"), 5.0)  # not evaluated
    records = read_run(run.run_dir)
    assert plot_losses(records) == []
    assert plot_metric(records) == ""
    assert plot_latency(records) == ""


def test_pictures_are_the_same_every_time(distillation_run):
    records = read_run(distillation_run.run_dir)
    assert plot_latency(records) == plot_latency(records)


@pytest.mark.parametrize("num_points", [2, 5, 9])
def test_labels_of_one_place_do_not_overlap(num_points):
    points = [(100.0 + 2 * i, 80.0) for i in range(num_points)]
    bounds = (0, 0, 400, 300)
    boxes = place_labels(points, [(60.0, 12.0)] * num_points, bounds)
    for one, other in itertools.combinations(boxes, 2):
        assert not overlap(one, other)
    for left, bottom, right, top in boxes:
        assert left >= 0
        assert bottom >= 0
        assert right <= 400
        assert top <= 300


def test_labels_stay_inside_near_the_border():
    ((left, _, right, _),) = place_labels(
        [(395.0, 150.0)], [(60.0, 12.0)], (0, 0, 400, 300)
    )
    assert left >= 0
    assert right <= 400


def test_ends_of_lines_are_named_apart():
    placed = stack_labels([50.0, 49.0, 50.0, 99.0], 5.0, 40.0, 100.0)
    assert placed == [54.0, 49.0, 59.0, 99.0]
    crowded = stack_labels([99.0, 99.0, 99.0], 5.0, 40.0, 100.0)
    assert crowded == [90.0, 95.0, 100.0]


def test_noise_does_not_fill_the_axis(make_run):
    run = make_run("run", {})
    for epoch, loss in ((1, 0.69315), (2, 0.69314)):
        run.epoch("student", "prediction_layer", epoch, loss=loss)
    ((svg,),) = [stage.pictures for stage in plot_losses(read_run(run.run_dir))]
    assert {"0.690", "0.695"} <= set(texts(svg))


def test_stages_without_room_are_not_named_in_the_picture(make_run):
    run = make_run("run", {})
    for epoch in range(1, 41):
        run.evaluation("student", "intermediate_layer", epoch, 0.5)
    run.evaluation("student", "prediction_layer", 1, 0.8)
    found = texts(plot_metric(read_run(run.run_dir)))
    assert "intermediate layer" not in found
    assert "student" in found


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (5, 224, [5, 10, 20, 50, 100, 200]),
        (0.02, 3, [0.03, 0.1, 0.3, 1, 3]),
        (1e-4, 1e9, [1e-4, 0.1, 100, 100_000, 100_000_000]),
    ],
)
def test_log_ticks_are_round_and_few(low, high, ticks):
    assert log_ticks(low, high) == pytest.approx(ticks)


def test_noise_is_drawn_with_a_line_and_a_label_for_each_model():
    curves = {
        "distilled": [(0, [0.9]), (1, [0.88, 0.86])],
        "a control with a long name": [(0, [0.9]), (1, [0.6, 0.5])],
        "diverged": [],
    }
    svg = plot_noise(curves, "accuracy", "mean_magnitude")
    assert "σ × mean magnitude" in svg
    assert "distilled" in svg
    assert "a control with a long name" in svg
    assert "diverged" not in svg
    wider = {f"{name}, and more": curve for name, curve in curves.items()}
    width = r'viewBox="0 0 ([0-9.]+) '
    assert float(re.search(width, plot_noise(wider, "accuracy", "mean"))[1]) > (
        float(re.search(width, svg)[1])
    )


@pytest.mark.parametrize(
    ("last", "hollow"),
    [([0.8, 0.7, 0.6], 0), ([0.8, math.nan, math.nan], 1), ([0.8], 0)],
)
def test_points_are_hollow_where_seeds_have_no_value(last, hollow):
    svg = plot_noise({"it": [(0, [0.9]), (1, last)]}, "accuracy", "mean")
    assert svg.count(f"fill: var(--page, {COLORS['page']})") == hollow
    note = "hollow: without the seeds that were not finite"
    assert texts(svg).count(note) == hollow
    # Of those that have one, the picture is as it was.
    finite = list(filter(math.isfinite, last))
    whole = plot_noise({"it": [(0, [0.9]), (1, finite)]}, "accuracy", "mean")
    assert (svg == whole) == (not hollow)


def test_points_without_any_value_are_not_drawn():
    curves = {"it": [(0, [0.9])], "other": [(0, [0.8])]}
    with_none = {
        name: [*curve, (1, [math.nan])] for name, curve in curves.items()
    }
    diverged = {**with_none, "diverged": [(0, [math.nan])]}
    drawn = [plot_noise(c, "accuracy", "mean") for c in (curves, diverged)]
    assert drawn[0] == drawn[1]


def test_names_of_near_ends_are_apart_on_a_logarithmic_axis():
    curves = {
        name: [(0, [400.0]), (1, [last])]
        for name, last in (("one", 6000.0), ("two", 5000.0), ("three", 4800.0))
    }
    svg = plot_noise(curves, "word_perplexity", "mean")
    heights = sorted(
        float(re.search(rf'y="([0-9.]+)">{name}<', svg)[1]) for name in curves
    )
    assert all(
        below - above > 10.5 for above, below in itertools.pairwise(heights)
    )
