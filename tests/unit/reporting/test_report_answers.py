"""The parts of pages that show data and answers."""

import pytest

from kdkit.reporting import read_run, render_report
from kdkit.runs.predictions import Difference, Predictions


def answers(arm, **more):
    fields = {
        "split": "dev",
        "examples": 872,
        "train_examples": 67_349,
        "chance": {"accuracy": 0.509},
        "constant": "always “positive”",
        "classes": ("negative", "positive"),
        "confusion": ((350, 78), (63, 381)),
        "unit": "examples",
    }
    return Predictions(arm=arm, **{**fields, **more})


def difference(**more):
    fields = {
        "text": ("a <b>fine</b> film",),
        "label": "positive",
        "student": "negative",
        "teacher": "positive",
        "student_share": 0.91,
        "teacher_share": 0.97,
    }
    return Difference(**{**fields, **more})


@pytest.fixture
def run(distillation_run):
    found = {"differing": 99, "differences": (difference(),)}
    distillation_run.predictions(
        answers("teacher"), answers("student", **found)
    )
    return distillation_run


def test_page_shows_data_chance_and_answers(run):
    text = render_report(read_run(run.run_dir))
    for shown in (
        "<dt>Task</dt><dd>sst2</dd>",
        "<dt>Folder</dt><dd>glue</dd>",
        "<dt>Training examples</dt><dd>67,349</dd>",
        "<dd>50.9\u00a0% accuracy (always “positive”)</dd>",
        '<td class="right" style="--share: 0.858">381</td>',
        "Student and teacher differ on 99 of 872 examples (11.4\u00a0%). Below",
        "<p>a &lt;b&gt;fine&lt;/b&gt; film</p>",
        "positive ✓ <small>97\u00a0%</small>",
    ):
        assert shown in text, shown
