"""Accuracy against size: each model once, under its own name."""

import statistics
from unittest.mock import MagicMock

import pytest

from kdkit.reporting import group_by_seed, plot_trade_off, read_run, trade_off

GAP = 0.05  # of a student to its teacher


@pytest.fixture
def points(monkeypatch):
    """A function of runs: their points, from label to value in percent."""

    class Axes:
        def __init__(self):
            self.values = []

        def plot(self, cost, value, label, **look):
            self.values.append((label, round(value, 9)))

        def __getattr__(self, name):
            return MagicMock(return_value=(0, 1))

    def find(*runs):
        axes = Axes()
        with monkeypatch.context() as patch:
            patch.setattr(
                trade_off, "draw", lambda title, paint, columns: paint(axes)
            )
            patch.setattr(trade_off, "_write_values", MagicMock())
            plot_trade_off(group_by_seed(runs))
        assert len(dict(axes.values)) == len(axes.values)  # own names
        return dict(axes.values)

    return find


@pytest.fixture
def make_student(make_run):
    """A function of a name, its teacher and that one's accuracy."""

    def make(name, teacher, accuracy, seed=0, timed=(), **config):
        data = {"task": "sst2", "data_dir": "glue"}
        settings = {"data": data, "teacher": str(teacher), "seed": seed}
        run = make_run(name, settings | config)
        run.evaluation("teacher", None, None, accuracy)
        run.evaluation("student", "fine_tuning", 1, accuracy - GAP)
        for arm in ("teacher", "student"):
            run.model(arm)
        for arm, precision, milliseconds in timed:
            run.latency(run.export(arm, precision), milliseconds)
        return read_run(run.run_dir)

    return make


@pytest.fixture
def make_teacher(make_run):
    """A function of the name of a run that trained a teacher."""

    def make(name, seed=0, checkpoint="bert"):
        settings = {"verb": "train-teacher", "data": {"task": "sst2"}}
        settings |= {"model": {"checkpoint": checkpoint}, "seed": seed}
        return make_run(name, settings).run_dir

    return make


def test_teachers_that_are_no_runs_have_a_point_each(make_student, points):
    runs = [
        make_student("a", "bert_base", 0.9),
        make_student("b", "org/bert_large", 0.95),
    ]
    assert points(*runs) == {
        "bert_base": 90, "bert_large": 95, "a": 85, "b": 90,
    }  # fmt: skip


def test_models_of_one_name_have_their_folder_in_it(
    make_student, make_teacher, points
):
    runs = []
    for size, accuracy in (("small", 0.9), ("large", 0.95)):
        teacher = make_teacher(f"{size}/teacher", checkpoint=size)
        runs.append(make_student(f"{size}/student", teacher, accuracy))
    assert points(*runs) == {
        "small/teacher": 90,
        "large/teacher": 95,
        "small/student": 85,
        "large/student": 90,
    }


def test_a_teacher_of_several_students_has_one_point(
    make_student, make_teacher, points
):
    teacher = make_teacher("teacher")
    runs = [
        make_student(recipe, teacher, 0.9, recipe=recipe)
        for recipe in ("kd", "pkd")
    ]
    assert points(*runs) == {"teacher": 90, "kd": 85, "pkd": 85}


def test_a_teacher_has_the_latencies_of_all_of_its_students_runs(
    make_student,
):
    timed = {
        "kd": [("student", "int8", 10), ("teacher", "int8", 20)],
        "pkd": [("student", "int8", 10), ("teacher", "fp32", 40)],
    }
    runs = [
        make_student(name, "bert_base", 0.9, timed=files, recipe=name)
        for name, files in timed.items()
    ]
    picture = plot_trade_off(group_by_seed(runs))
    for precision in ("int8", "fp32"):
        assert f">bert_base, {precision} file<" in picture


@pytest.mark.parametrize("seeds", [(2,), (1, 2)])
def test_seeds_of_a_teacher_are_one_point_of_their_mean(
    make_student, make_teacher, points, seeds
):
    accuracies = {0: 0.9, 1: 0.92, 2: 0.97}
    teachers = {
        seed: make_teacher(f"teacher_seed{seed}", seed) for seed in accuracies
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
