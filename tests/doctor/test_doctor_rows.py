"""Each check of rows, sizes and space, on data with exactly that problem."""

import dataclasses
import shutil
import types

import numpy as np
import psutil
import pytest
from kit.helpers import bert

from kdkit import doctor, models
from kdkit.doctor import NOTE, OK, RUINS, WARNING
from kdkit.doctor.text_examination import text_model
from kdkit.taps import describe
from kdkit.tasks import MultiLabel, Tagging, get_task
from kdkit.training.model_settings import ModelSettings, model_settings


class Encoded:
    """What the check reads of `kdkit.data.EncodedExamples`."""

    sequence_length = 8

    def __init__(self, num_rows, num_truncated):
        self.lengths = np.full(num_rows, 8 if num_truncated else 5)
        self.num_truncated = num_truncated

    def __len__(self):
        return len(self.lengths)


@pytest.mark.parametrize(
    ("cut", "outcome"), [(0, OK), (2, OK), (20, NOTE), (500, WARNING)]
)
def test_rows_that_are_cut_are_counted(cut, outcome):
    finding = doctor.lengths_cut(
        {"train": Encoded(1000, cut), "dev": Encoded(10, 0)}, "--set length="
    )
    assert finding.outcome == outcome
    assert f"{cut} of 1000 rows of train" in finding.found
    assert ("--set length=16" in finding.advice) == (outcome in (NOTE, WARNING))


def balance(name, labels):
    return doctor.class_balance(get_task(name), labels)


def test_one_class_in_the_training_file_ruins_the_run():
    assert balance("sst2", np.array([0, 1] * 10)).outcome == OK
    finding = balance("sst2", np.zeros(20, int))
    assert finding.outcome == RUINS
    assert "negative 100.0 %" in finding.found


def test_rows_to_choose_on_with_one_label_are_a_warning():
    tags = dataclasses.replace(get_task("conll"), kind=Tagging(("O", "B-PER")))
    several = dataclasses.replace(
        get_task("multi_label"), kind=MultiLabel(("joy", "fear"))
    )
    for task, alike, different in (
        (get_task("sst2"), np.ones(20, int), np.arange(20) % 2),
        (get_task("stsb"), np.full(20, 2.5), np.linspace(0, 5, 20)),
        (tags, [np.zeros(2, int)] * 9, [np.array([0, 1])] * 9),
        (several, np.array([[1, 0]] * 9), np.array([[1, 0], [1, 1]])),
    ):
        assert doctor.dev_balance(task, different, "dev") is None
        assert doctor.dev_balance(task, alike, "dev").outcome == WARNING
        if task is not tags:
            logits = np.zeros((len(alike), task.num_classes))
            finding = doctor.teacher_accuracy(task, alike, logits)
            assert finding.outcome == NOTE


def test_scores_that_are_all_the_same_ruin_the_run():
    assert balance("stsb", np.array([0.0, 5.0])).outcome == OK
    assert balance("stsb", np.full(9, 2.5)).outcome == RUINS


def test_a_student_that_is_no_smaller_is_a_warning():
    """The compressed model was larger than the teacher."""
    small, large = (models.architecture(bert(depth)) for depth in (1, 3))
    assert doctor.student_size(large, small).outcome == OK
    finding = doctor.student_size(small, large)
    assert finding.outcome == WARNING
    assert "not smaller" in finding.found


def test_too_little_memory_ruins_the_run(monkeypatch):
    def finding():
        return doctor.memory(10**9, 10**8, 10**8, 0, "32 × 128 tokens")

    needed = 4 * (10**9 + 10**8 + 3 * 10**8)

    def machine(total, available):
        return lambda: types.SimpleNamespace(total=total, available=available)

    for total, available, outcome in (
        (4 * needed, 2 * needed, OK),
        (2 * needed, needed, WARNING),
        (needed - 1, needed - 1, RUINS),
    ):
        monkeypatch.setattr(psutil, "virtual_memory", machine(total, available))
        assert finding().outcome == outcome
    assert "5.6 GB" in finding().found


@pytest.mark.parametrize(
    ("free", "outcome"), [(10**10, OK), (10**9, WARNING), (10**8, RUINS)]
)
def test_too_little_room_on_the_disk_ruins_the_run(
    free, outcome, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        shutil, "disk_usage", lambda place: types.SimpleNamespace(free=free)
    )
    finding = doctor.disk(
        {"student": 5 * 10**8, "control": 4 * 10**8}, tmp_path / "a" / "b"
    )
    assert finding.outcome == outcome
    assert "About 900 MB" in finding.found
    assert f"free in {tmp_path}" in finding.found


@pytest.mark.parametrize(
    "settings",
    [
        ModelSettings(
            num_layers=2,
            hidden_dim=16,
            num_heads=2,
            intermediate_dim=24,
            max_sequence_length=12,
            family="gpt2",
        ),
        dataclasses.replace(
            model_settings("mass_6_layer"),
            mass=dataclasses.replace(
                model_settings("mass_6_layer").mass,
                encoder_num_layers=2,
                decoder_num_layers=1,
                hidden_dim=16,
                num_heads=2,
                intermediate_dim=24,
                max_sequence_length=12,
            ),
        ),
    ],
    ids=["gpt2", "mass"],
)
def test_sizes_of_models_on_text_are_those_of_the_built_model(settings):
    built = models.language_model(
        models.student(settings.config(), vocabulary_size=300)
    )
    known = text_model(settings, 300)
    assert known.parameters == built.count_params()
    assert known.shape == dataclasses.replace(describe(built), num_classes=300)
