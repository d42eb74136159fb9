"""The files of a run, how it resumes, and what it refuses."""

import dataclasses
import functools
import shutil

import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from kit.helpers import (
    change_events,
    read_events,
    stopped_after_save,
)
from tensorboard.backend.event_processing import event_accumulator

from kdkit.errors import RunError, UsageError
from kdkit.models import load_classifier
from kdkit.runs import smoke
from kdkit.settings import override
from kdkit.tasks import Task
from kdkit.training import (
    distill,
    train_teacher,
)


def read_values(folder):
    """TensorBoard's last points below a folder, by part, tag and step."""
    points = {}
    for part in ("train", "validation"):
        reader = event_accumulator.EventAccumulator(str(folder / part))
        reader.Reload()
        for tag in reader.Tags()["tensors"]:
            for event in reader.Tensors(tag):
                points[part, tag, event.step] = float(
                    tf.make_ndarray(event.tensor_proto)
                )
    return points


def test_epochs_name_the_losses_without_the_teachers_entropy(finished_run):
    named = {
        (event["arm"], event["stage"]): event.get("less_teacher_entropy")
        for event in read_events(finished_run, "epoch")
    }
    assert named["student", "intermediate_layer"] is None
    assert named["student", "prediction_layer"] == [
        "soft_cross_entropy",
        "loss",
    ]


@pytest.mark.parametrize("part", [".", "teacher_run"])
def test_a_finished_run_of_other_rows_is_not_taken(
    part, finished_run, smoke_settings, tmp_path
):
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)

    def of_other_rows(event):
        if event["event"] == "inputs":
            event["digests"]["train"] = "0" * 16

    change_events(run / part, of_other_rows)
    if part == ".":
        again = functools.partial(distill, smoke_settings)
    else:
        again = functools.partial(train_teacher, smoke_settings.teacher)
    with pytest.raises(UsageError, match="content of the training examples"):
        again(run / part)


def test_a_finished_run_needs_no_data(
    finished_run, smoke_settings, monkeypatch, logged
):
    def load(self, split, data_dir):
        raise UsageError("There is no such file.")

    monkeypatch.setattr(Task, "load", load)
    distill(smoke_settings, finished_run)
    assert "is finished: nothing to do" in logged()


@pytest.fixture(scope="module")
def teacher_settings():
    return override(
        smoke.TEACHER,
        [
            "data.max_train_rows=64",
            "data.num_buckets=1",
            "model.num_layers=1",
            "model.dropout=0.3",
            "stages.0.epochs=3",
        ],
    )


@pytest.mark.parametrize(
    "changes",
    [
        [],
        pytest.param(
            [
                "dtype_policy=mixed_bfloat16",
                "stages.0.gradient_accumulation_steps=2",
            ],
            marks=pytest.mark.large,
        ),
        pytest.param(["dtype_policy=mixed_float16"], marks=pytest.mark.large),
    ],
    ids=["plain", "in parts and bfloat16", "float16"],
)
def test_a_run_stopped_within_an_epoch_ends_the_same_bit_for_bit(
    changes, teacher_settings, tmp_path
):
    teacher_settings = override(teacher_settings, changes)
    train_teacher(teacher_settings, tmp_path / "whole")
    saving = override(teacher_settings, ["checkpoint_minutes=0"])
    with stopped_after_save(3):
        train_teacher(saving, tmp_path / "stopped")
    # How often a run saves is no part of what makes it.
    train_teacher(teacher_settings, tmp_path / "stopped")
    whole_run, stopped_run = (
        [
            [
                {k: v for k, v in event.items() if k not in ("time", "seconds")}
                for event in read_events(run)
            ],
            read_values(run / "tensorboard" / "teacher" / "fine_tuning"),
        ]
        for run in (tmp_path / "whole", tmp_path / "stopped")
    )
    assert stopped_run == whole_run
    for whole, stopped in zip(
        load_classifier(tmp_path / "whole", 2).model.get_weights(),
        load_classifier(tmp_path / "stopped", 2).model.get_weights(),
        strict=True,
    ):
        np.testing.assert_array_equal(whole, stopped)
    # And so are the files, though other objects were made before them.
    files = [*(tmp_path / "whole").rglob("*.h5")]
    files += [*(tmp_path / "whole" / "teacher").rglob("*.json")]
    files += [*(tmp_path / "whole").rglob("state.json")]
    assert len(files) > 5
    for file in files:
        other = tmp_path / "stopped" / file.relative_to(tmp_path / "whole")
        assert other.read_bytes() == file.read_bytes(), file


def test_a_loss_that_is_not_finite_stops_the_run_by_name(
    teacher_settings, tmp_path
):
    diverging = override(
        teacher_settings,
        ["stages.0.learning_rate=1e30", "stages.0.schedule=constant"],
    )
    with pytest.raises(RunError, match=r"loss became .* 'fine_tuning' at step"):
        train_teacher(diverging, tmp_path / "run")


def test_an_untrained_teacher_is_refused(
    smoke_settings, finished_run, tmp_path
):
    preset = finished_run / "teacher_run" / "teacher"
    encoder = keras_hub.models.Backbone.from_preset(str(preset))
    tokenizer = keras_hub.tokenizers.BertTokenizer.from_preset(str(preset))
    encoder.save_to_preset(str(tmp_path / "encoder"))
    tokenizer.save_to_preset(str(tmp_path / "encoder"))
    settings = dataclasses.replace(
        smoke_settings, teacher=str(tmp_path / "encoder")
    )
    with pytest.raises(UsageError, match="kdkit train-teacher"):
        distill(settings, tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()
