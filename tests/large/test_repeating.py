"""The same settings, seed and machine give the same bits."""

import shutil

import numpy as np
import pytest
from kit.helpers import read_events

from kdkit.cli.main import main
from kdkit.models import load_classifier

pytestmark = pytest.mark.usefixtures("quick_runs")

SMALL = [
    word
    for setting in (
        "data.max_train_rows=64",
        "data.num_buckets=1",
        "stages.0.epochs=1",
        "teacher.stages.0.epochs=1",
        "teacher.data.max_train_rows=64",
        "teacher.model.num_layers=2",
        "student.copy_layers=[1]",
    )
    for word in ("--set", setting)
]


@pytest.mark.large
def test_a_run_is_made_again_from_its_file_alone(tmp_path, monkeypatch):
    first, again = tmp_path / "first", tmp_path / "again"
    words = ["distill", "vanilla_kd", "--smoke", "--seed", "3", *SMALL]
    assert main([*words, "--run-dir", str(first)]) == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    shutil.copy(first / "config.json", "settings.json")
    words = ["distill", "--config", "settings.json"]
    assert main([*words, "--run-dir", str(again)]) == 0
    for model in ("teacher_run", "."):
        weights, others = (
            load_classifier(run / model, 2).model.get_weights()
            for run in (first, again)
        )
        for one, other in zip(weights, others, strict=True):
            np.testing.assert_array_equal(one, other)
    for kind, numbers in (("epoch", "logs"), ("evaluation", "metrics")):
        for run in ("", "teacher_run"):
            events, others = (
                [event[numbers] for event in read_events(place / run, kind)]
                for place in (first, again)
            )
            assert events
            assert events == others
