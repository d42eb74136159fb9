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
