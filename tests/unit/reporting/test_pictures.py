"""Pictures: which lines and points they have, and their names."""

import math
import statistics

import pytest
from kit.reports import svg_texts

from kdkit.reporting import (
    group_by_seed,
    outcome_pictures,
    plot_learning_curves,
    plot_losses,
    plot_metric,
    plot_trade_off,
    plot_values,
)

GAP = 0.05  # of a student to its teacher


def test_losses_have_a_picture_for_each_objective(distillation_run, drawn):
    stages = plot_losses(distillation_run.records)
    assert {(one.arm, one.stage): [*one.pictures] for one in stages} == {
        ("student", "intermediate_layer"): [
            "loss",
            "attention MSE",
            "hidden state MSE",
        ],
        ("student", "prediction_layer"): ["loss"],
        ("control", "fine_tuning"): ["loss"],
    }
    label, across, up, _ = drawn[2]  # after those of the loss
    assert (label, list(across)) == ("training", [1, 2, 3])
    assert up == pytest.approx([4.1, 4.1 / 2**1.5, 4.1 / 3**1.5])
    label, _, dev, _ = drawn[3]
    assert (label, dev) == ("dev", pytest.approx([1.07 * one for one in up]))
    (svg,) = stages[-1].pictures.values()
    assert {"loss", "training", "dev", "epoch"} <= set(svg_texts(svg))
    # The same numbers give the same file.
    again = plot_losses(distillation_run.records)[-1].pictures.values()
    assert [*again] == [svg]


def test_an_epoch_that_was_repeated_counts_once(make_run, drawn):
    run = make_run("run")
    for epoch, loss in ((1, 3.0), (2, 9.0), (2, 2.0)):
        run.epoch("student", "prediction_layer", epoch, loss=loss)
    plot_losses(run.records)
    ((_, across, up, _),) = drawn
    assert (list(across), list(up)) == ([1, 2], [3.0, 2.0])


def test_metric_has_a_line_for_each_arm_over_all_stages(
    distillation_run, drawn
):
    svg = plot_metric(distillation_run.records)
    titles = {"Accuracy on dev (%)", "teacher", "control", "student"}
    assert titles <= set(svg_texts(svg))
    lines = {label: list(across) for label, across, *_ in drawn}
    assert lines == {"control": [*range(1, 7)], "student": [*range(1, 7)]}


def test_epochs_on_text_do_not_move_the_curve_of_the_task(make_run, drawn):
    run = make_run("small")
    for epoch in (1, 2):
        run.epoch("student", "pretraining", epoch, loss=3.0)
        run.evaluation("student", "pretraining", epoch, 0.2, split="held_out")
    run.epoch("student", "fine_tuning", 1, accuracy=0.8)
    run.evaluation("student", "fine_tuning", 1, 0.7)
    plot_learning_curves([run.records])
    points = {(*across, *up) for _, across, up, _ in drawn if len(across) == 1}
    assert points >= {(1, 80.0), (1, 70.0)}


def test_latency_names_the_files_timed_in_the_commonest_setting(
    distillation_run,
):
    file = distillation_run.export("control", "int8", 0.78)
    distillation_run.latency(file, 3.0, threads=2)
    pictures = outcome_pictures(distillation_run.records)
    assert [*pictures] == ["latency", "size"]
    found = set(svg_texts(pictures["latency"]))
    labels = {"teacher fp32", "student fp32", "student fp16", "student int8"}
    assert labels | {"10", "20", "50"} <= found
    assert "control int8" not in found
    assert "control int8" in svg_texts(pictures["size"])


def test_pictures_of_nothing_are_empty(make_run):
    run = make_run("run")
    run.latency(run.export("student", "int8"), 5.0)  # not evaluated
    assert plot_losses(run.records) == []
    assert plot_metric(run.records) == ""
    assert outcome_pictures(run.records) == {}


def test_values_have_a_line_and_a_name_for_each_model():
    curves = {
        "distilled": [(0, [400.0]), (1, [500.0, 600.0])],
        "a control with a $long_name$": [(0, [400.0]), (1, [6000.0, 5000.0])],
        "_日本": [(0, [400.0])],
        "diverged": [(0, [math.nan])],
        "not run": [],
    }
    svg = plot_values(curves, "word_perplexity", "", "an axis")
    found = set(svg_texts(svg))
    names = {"distilled", "a control with a $long_name$", " _日本"}
    assert names | {"an axis", "1000"} <= found
    assert not {"diverged", "not run"} & found


@pytest.fixture
def points(drawn):
    """A function of runs: their points, from label to value in percent."""

    def find(*runs):
        drawn.clear()
        plot_trade_off(group_by_seed(runs))
        found = [(label, round(up, 9)) for label, _, up, _ in drawn]
        assert len(dict(found)) == len(found)  # own names
        return dict(found)

    return find


@pytest.fixture
def make_student(make_run):
    """A function of a name, its teacher and that one's accuracy."""

    def make(name, teacher, accuracy, seed=0, timed=(), **fields):
        fields |= {"teacher": [str(teacher)], "training": {"seed": seed}}
        run = make_run(name, **fields)
        run.evaluation("teacher", None, None, accuracy)
        run.evaluation("student", "fine_tuning", 1, accuracy - GAP)
        for arm in ("teacher", "student"):
            run.model(arm)
        for arm, precision, milliseconds in timed:
            run.latency(run.export(arm, precision), milliseconds)
        return run.records

    return make


@pytest.fixture
def bare_teacher(make_run):
    """A function of the name of a run that trained a teacher."""

    def make(name, seed=0, checkpoint="bert"):
        fields = {"student": {"checkpoint": checkpoint}}
        fields["training"] = {"seed": seed}
        return make_run(name, "teacher", **fields).run_dir

    return make


def test_each_model_has_a_point_under_its_own_name(
    make_student, bare_teacher, points
):
    runs = [
        make_student("a", "bert_base", 0.9),
        make_student("b", "org/bert_large", 0.95),
    ]
    expected = {"bert_base": 90, "bert_large": 95, "a": 85, "b": 90}
    assert points(*runs) == expected
    # Models of one name have their folder in it.
    runs = [
        make_student(
            f"{size}/student",
            bare_teacher(f"{size}/teacher", checkpoint=size),
            accuracy,
        )
        for size, accuracy in (("small", 0.9), ("large", 0.95))
    ]
    assert points(*runs) == {
        "small/teacher": 90,
        "large/teacher": 95,
        "small/student": 85,
        "large/student": 90,
    }


def test_a_teacher_of_several_students_has_one_point(
    make_student, bare_teacher, points
):
    teacher = bare_teacher("teacher")
    runs = [
        make_student(recipe, teacher, 0.9, recipe=recipe)
        for recipe in ("kd", "pkd")
    ]
    assert points(*runs) == {"teacher": 90, "kd": 85, "pkd": 85}


def test_a_teacher_has_the_latencies_of_all_of_its_students_runs(make_student):
    timed = {
        "kd": [("student", "int8", 10), ("teacher", "int8", 20)],
        "pkd": [("student", "int8", 10), ("teacher", "fp32", 40)],
    }
    runs = [
        make_student(name, "bert_base", 0.9, timed=files, recipe=name)
        for name, files in timed.items()
    ]
    found = svg_texts(plot_trade_off(group_by_seed(runs)))
    assert {"bert_base, int8 file", "bert_base, fp32 file"} <= set(found)


@pytest.mark.parametrize("seeds", [(2,), (1, 2)])
def test_seeds_of_a_teacher_are_one_point_of_their_mean(
    make_student, bare_teacher, points, seeds
):
    accuracies = {0: 0.9, 1: 0.92, 2: 0.97}
    teachers = {
        seed: bare_teacher(f"teacher_seed{seed}", seed) for seed in accuracies
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
        recipe: statistics.fmean(accuracies[seed] - GAP for seed in those)
        for recipe, those in students.items()
    }
    means["teacher"] = statistics.fmean(accuracies.values())
    assert points(*runs) == {
        name: pytest.approx(100 * mean) for name, mean in means.items()
    }
