"""The files of a run, how it resumes, and what it refuses."""

import dataclasses
import functools
import shutil

import h5py
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    DEV_ROWS,
    change_events,
    read_events,
    stopped_after_save,
)
from tensorboard.backend.event_processing import event_accumulator

from kdkit.errors import RunError, UsageError
from kdkit.models import load_classifier
from kdkit.reporting import read_run
from kdkit.runs import smoke
from kdkit.runs.directory import read_config
from kdkit.settings import from_dict, override
from kdkit.tasks import Task
from kdkit.training import (
    DistillSettings,
    distill,
    train_teacher,
)
from kdkit.training.model_settings import model_settings


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


def test_run_directory_holds_what_is_promised(finished_run):
    names = {path.name for path in finished_run.iterdir()}
    assert names >= {
        "config.json", "metrics.jsonl", "checkpoints", "student", "control",
        "tensorboard", "teacher_run",
    }  # fmt: skip


def test_answers_on_dev_are_saved_for_the_report(finished_run):
    (measured,) = read_events(finished_run, "run_finished")
    predictions = read_run(finished_run).predictions
    assert set(predictions) == {"teacher", "student"}
    student = predictions["student"]
    counts = np.array(student.confusion)
    assert counts.sum() == student.examples
    accuracy = measured["best"]["student"]["metrics"]["accuracy"]
    assert np.trace(counts) / counts.sum() == pytest.approx(accuracy)
    answers = [(one.student, one.teacher) for one in student.differences]
    assert len(answers) <= student.differing
    assert all(one != other for one, other in answers)


def test_config_alone_gives_the_settings_back(finished_run, smoke_settings):
    settings = from_dict(DistillSettings, read_config(finished_run))
    assert settings == smoke_settings


def test_student_is_a_preset_with_its_tokenizer(finished_run):
    model = keras_hub.models.TextClassifier.from_preset(
        str(finished_run / "student")
    )
    logits = model.predict(["the film is not good ."], verbose=0)
    assert logits.shape == (1, 2)


def test_every_objective_and_metric_is_logged_each_epoch(finished_run):
    logs = {
        (event["arm"], event["stage"]): event["logs"]
        for event in read_events(finished_run, "epoch")
    }
    intermediate = logs["student", "intermediate_layer"]
    assert {"attention_mse", "hidden_state_mse", "val_hidden_state_mse"} <= (
        intermediate.keys()
    )
    prediction = logs["student", "prediction_layer"]
    assert {
        "soft_cross_entropy", "learning_rate", "val_accuracy",
        "val_same_top_class", "val_kl_divergence",
    } <= prediction.keys()  # fmt: skip


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


def test_teacher_student_and_agreement_are_evaluated(finished_run):
    evaluations = read_events(finished_run, "evaluation")
    arms = [event["arm"] for event in evaluations]
    assert arms == ["teacher", "student", "student", "control", "control"]
    assert evaluations[0]["agreement"] is None
    assert 0 <= evaluations[1]["agreement"]["same_top_class"] <= 1
    assert evaluations[1]["examples"] == DEV_ROWS


def test_control_has_as_many_updates_as_the_student(finished_run):
    steps = {}
    for event in read_events(finished_run, "epoch"):
        steps.setdefault(event["arm"], {})[event["stage"]] = event["step"]
    assert sum(steps["control"].values()) == sum(steps["student"].values())


def test_both_arms_start_from_the_same_weights(finished_run, smoke_settings):
    models = [
        event
        for event in read_events(finished_run, "model")
        if event["arm"] in ("student", "control")
    ]
    assert models[0]["parameters"] == models[1]["parameters"]


def test_tensorboard_has_a_folder_for_each_arm_and_stage(finished_run):
    folders = {
        path.parent.relative_to(finished_run / "tensorboard").as_posix()
        for path in (finished_run / "tensorboard").rglob("events*")
    }
    assert folders == {
        f"{arm}/{part}"
        for arm in (
            "student/intermediate_layer",
            "student/prediction_layer",
            "control/fine_tuning",
        )
        for part in ("train", "validation")
    }


def test_checkpoints_hold_no_teacher(finished_run):
    teacher = load_classifier(finished_run / "teacher_run", 2).model
    widths = {weight.shape for weight in teacher.get_weights()}
    student = load_classifier(finished_run, 2).model
    own = {weight.shape for weight in student.get_weights()}
    shapes = set()

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            shapes.add(item.shape)

    for file in (finished_run / "checkpoints").rglob("*.h5"):
        with h5py.File(file) as content:
            content.visititems(visit)
    assert shapes
    assert not shapes & (widths - own)


def test_a_finished_run_says_so_and_stops(finished_run, smoke_settings, logged):
    before = (finished_run / "metrics.jsonl").read_bytes()
    distill(smoke_settings, finished_run)
    assert "is finished: nothing to do" in logged()
    assert (finished_run / "metrics.jsonl").read_bytes() == before


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


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("dtype_policy=mixed_float16", "In float16, a part"),
        ("stages.0.batch_size=5", "does not divide"),
    ],
)
def test_what_does_not_go_with_parts_is_refused(
    change, match, teacher_settings
):
    changes = ["stages.0.gradient_accumulation_steps=2", change]
    with pytest.raises(UsageError, match=match):
        override(teacher_settings, changes)


@pytest.mark.large
def test_batches_in_parts_make_the_same_run(teacher_settings, tmp_path):
    logged = []
    for parts in (1, 2):
        settings = override(
            teacher_settings,
            [
                "model.dropout=0.0",
                f"stages.0.gradient_accumulation_steps={parts}",
            ],
        )
        train_teacher(settings, tmp_path / str(parts))
        logged.append(read_events(tmp_path / str(parts), "epoch"))
    for whole, in_parts in zip(*logged, strict=True):
        assert in_parts["step"] == whole["step"]
        for name, value in whole["logs"].items():
            assert in_parts["logs"][name] == pytest.approx(value, rel=2e-3)


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


def test_what_does_not_fit_is_told_before_training(
    smoke_settings, finished_run, tmp_path
):
    settings = override(
        dataclasses.replace(
            smoke_settings, teacher=str(finished_run / "teacher_run")
        ),
        [
            "stages.0.objectives.hidden_state_mse.projection=null",
        ],
    )
    with pytest.raises(UsageError, match="different sizes"):
        distill(settings, tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.large
def test_student_starts_from_a_checkpoint(
    smoke_settings, finished_run, tmp_path
):
    settings = override(
        dataclasses.replace(
            smoke_settings,
            teacher=str(finished_run / "teacher_run"),
            student=model_settings(str(finished_run / "student")),
            stages=smoke_settings.stages[1:],
            control=(),
        ),
        ["stages.0.learning_rate=1e-30"],
    )
    distill(settings, tmp_path / "run")
    for old, new in zip(
        load_classifier(finished_run, 2).model.get_weights(),
        load_classifier(tmp_path / "run", 2).model.get_weights(),
        strict=True,
    ):
        np.testing.assert_allclose(old, new, atol=1e-6)
