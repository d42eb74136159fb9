"""Conclusions of a report: noise, collapse, which model is better."""

import io

import numpy as np
import pytest
from rich.console import Console

from kdkit.reporting import (
    print_report,
    render_report,
)
from kdkit.reporting.comparison import (
    difference_error,
    is_noise,
    standard_error,
)
from kdkit.reporting.records import read_run
from kdkit.reporting.summary import verdict
from kdkit.runs.directory import RunDirectory
from kdkit.runs.events import Best
from kdkit.runs.log import finish

CHANCE = "is right in 50.9 %, the most frequent answer alone in 50.9 %"


def test_standard_errors_are_those_of_simulations():
    rng = np.random.default_rng(0)
    right = rng.random((4000, 400)) < 0.85
    other = np.where(rng.random(right.shape) < 0.1, ~right, right)
    drawn = right.mean(axis=1)
    assert standard_error("accuracy", [0.85], 400) == pytest.approx(
        drawn.std(), rel=0.05
    )
    differences = drawn - other.mean(axis=1)
    found = difference_error(
        "accuracy", [right.mean()], [other.mean()], 400, disagreement=0.1
    )
    assert found == pytest.approx(differences.std(), rel=0.05)
    x, noise = rng.normal(size=(2, 4000, 400))
    pairs = zip(x, 0.6 * x + 0.8 * noise, strict=True)
    correlations = [np.corrcoef(a, b)[0, 1] for a, b in pairs]
    assert standard_error("pearson", [0.6], 400) == pytest.approx(
        np.std(correlations), rel=0.05
    )


def test_seeds_are_compared_by_their_spread():
    first, second = [0.80, 0.82, 0.84], [0.81, 0.80, 0.82]
    error = (np.var(first, ddof=1) / 3 + np.var(second, ddof=1) / 3) ** 0.5
    found = difference_error("f1", first, second, None)
    assert found == pytest.approx(error)
    assert is_noise("f1", first, second, None)
    assert not is_noise("f1", first, [value - 0.1 for value in second], None)
    assert not is_noise("f1", [0.8], [0.8001], 100)  # no error is known


@pytest.mark.parametrize("student", [0.88, 0.8876, 0.893])
def test_students_near_the_teacher_are_called_that(student, make_distillation):
    """For and against: 872 examples cannot resolve half a point."""
    run = make_distillation("run", student=student, exported=False)
    text = verdict(read_run(run.run_dir))
    assert f"({100 * student:.1f} % of 88.8 %, within two standard" in text


def test_controls_near_the_student_are_called_that(make_distillation):
    for name, control in (("less", 0.835), ("more", 0.841)):
        run = make_distillation(name, control=control, exported=False)
        text = verdict(read_run(run.run_dir))
        assert "points " + name in text
        assert text.endswith(
            "within two standard errors: no difference is shown."
        )
        assert "did not help" not in text


def collapse(run, arm, accuracy):
    """Logs that an arm ended at the level of the commonest class."""
    stage = {"student": "prediction_layer", "control": "fine_tuning"}.get(arm)
    epoch = {"student": 3, "control": 4}.get(arm)
    run.evaluation(arm, stage, epoch, accuracy, collapsed=CHANCE)


def test_a_collapsed_student_has_no_gains(make_distillation):
    run = make_distillation("run", student=0.509)
    collapse(run, "student", 0.509)
    records = read_run(run.run_dir)
    text = verdict(records)
    assert text.startswith(
        f"The student has collapsed (50.9 % accuracy): it {CHANCE}; the "
        "teacher reaches 88.8 % accuracy"
    )
    assert "keeps" not in text
    assert "faster" not in text
    assert "What usually helps: another learning rate" in text
    assert "--control" not in text  # it was there
    assert "The student has collapsed" in render_report(records)
    output = io.StringIO()
    print_report(records, Console(file=output, width=80))
    assert "The student has collapsed" in output.getvalue()


def test_a_run_ends_with_the_headline_of_its_report(make_distillation, logged):
    run = make_distillation("run", student=0.509, exported=False)
    collapse(run, "student", 0.509)
    best = Best(
        stage="prediction_layer",
        epoch=3,
        split="dev",
        metrics={"accuracy": 0.509},
        collapsed=CHANCE,
    )
    finish(RunDirectory(run.run_dir), {"student": best})
    student, headline = logged().splitlines()
    assert student.startswith("student: accuracy 0.5090 on dev")
    assert headline == verdict(read_run(run.run_dir))
    assert headline.startswith("The student has collapsed")


def test_numbers_of_a_smoke_run_are_said_to_mean_nothing(make_run):
    """Its student is random: nothing is said of collapse."""
    command = "kdkit distill pkd --smoke --run-dir run"
    config = {"recipe": "pkd", "teacher": "x"}
    config["provenance"] = {"command": command}
    run = make_run("run", config)
    run.evaluation("student", "s", 1, 0.6)
    collapse(run, "student", 0.509)
    text = verdict(read_run(run.run_dir))
    assert "smoke run" in text
    assert "numbers mean nothing" in text
    assert "collapsed" not in text


def test_a_share_of_a_much_worse_teacher_is_not_shown(make_run):
    run = make_run("run", {"recipe": "multilingual", "teacher": "x"})
    run.evaluation("teacher", None, None, 0.25)
    run.evaluation("student", "s", 1, 0.9)
    text = verdict(read_run(run.run_dir))
    assert text.startswith(
        "The student reaches 90.0 % accuracy, the teacher 25.0 %"
    )


def test_a_collapsed_control_or_teacher_is_named(make_distillation, make_run):
    run = make_distillation("run", control=0.509)
    collapse(run, "control", 0.509)
    text = verdict(read_run(run.run_dir))
    assert text.startswith("The student keeps 94.4 %")
    assert "without a teacher: 50.9 %, 32.9 points less (it has" in text
    assert f"(it has collapsed: it {CHANCE})." in text
    run = make_run("teacher_alone", {"verb": "train-teacher"})
    collapse(run, "teacher", 0.509)
    text = verdict(read_run(run.run_dir))
    assert text.startswith(
        f"The teacher has collapsed (50.9 % accuracy): it {CHANCE}"
    )
    assert "--control" not in text
    run = make_run("of_it", {"recipe": "pkd", "teacher": "x"})
    run.evaluation("student", "s", 1, 0.6)
    collapse(run, "teacher", 0.509)
    text = verdict(read_run(run.run_dir))
    assert text.startswith("The teacher has collapsed")
    assert "--control" in text


def test_an_untrained_head_is_told_first(make_run):
    run = make_run("run", {"recipe": "tinybert", "teacher": "x"})
    run.evaluation("student", "intermediate_layer", 1, 0.49)
    best = {
        "stage": "intermediate_layer",
        "epoch": 1,
        "metrics": {"accuracy": 0.49},
        "untrained_layers": ["bert/logits"],
    }
    run.log("run_finished", seconds=1.0, best={"student": best})
    assert verdict(read_run(run.run_dir)).startswith(
        "The student's head was never trained (bert/logits): no stage reads "
        "its logits, so its answers are random; the student reaches 49.0 %"
    )


def test_distillation_and_quantisation_are_told_apart(
    distillation_run, teacher_run
):
    file = "exports/teacher/teacher-int8.tflite"
    distillation_run.export(
        "teacher", "int8", 0.8870, file=file, size_bytes=22_800_000
    )
    distillation_run.latency(file, 24.0)
    text = verdict(read_run(distillation_run.run_dir))
    assert (
        "by distillation alone its fp32 file is 4.1× faster and 1.6× smaller "
        "than the teacher's; by quantisation alone the teacher's int8 file is "
        "2.6× faster and 4.0× smaller than its fp32 file, at 88.7 % accuracy, "
        "within two standard errors of what it was; its int8 file is 10× "
        "faster and 6.3× smaller than the teacher's fp32 file, and 4.0× "
        "faster and 1.6× smaller than the teacher's int8 file;"
    ) in text
