"""A stage that ends with the mean of the weights after its last epochs."""

import keras
import numpy as np
import pytest

from kdkit.models import load_classifier
from kdkit.runs import smoke
from kdkit.runs.directory import RunDirectory
from kdkit.runs.events import Evaluation, RunFinished
from kdkit.settings import override
from kdkit.tasks import get_task
from kdkit.training import train_teacher
from kdkit.training.checkpoints import StageCheckpoints
from kdkit.training.task_data import predict_logits

SETTINGS = override(
    smoke.TEACHER,
    [
        "data.max_train_rows=64",
        "model.num_layers=1",
        "stages.0.epochs=3",
        "stages.0.keep_best=false",
        "stages.0.average_last=2",
    ],
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that was stopped twice, and its weights after each epoch."""
    path = tmp_path_factory.mktemp("runs") / "run"
    weights = {}
    save_epoch, finish = StageCheckpoints.save_epoch, StageCheckpoints.finish

    def stop_after_two(self, trainer, student, epoch, *arguments):
        weights[epoch] = student.get_weights()
        save_epoch(self, trainer, student, epoch, *arguments)
        if epoch == 2:
            raise KeyboardInterrupt

    def stop_before_the_end(self, *arguments):
        patch.setattr(StageCheckpoints, "finish", finish)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StageCheckpoints, "save_epoch", stop_after_two)
        patch.setattr(StageCheckpoints, "finish", stop_before_the_end)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                train_teacher(SETTINGS, path)
        train_teacher(SETTINGS, path)
    return RunDirectory(path), weights


@pytest.mark.large
def test_a_stopped_run_ends_with_the_mean_of_its_last_epochs(run):
    directory, weights = run
    assert sorted(weights) == [1, 2, 3]
    final = load_classifier(directory.path, 2).model.get_weights()
    for ours, *theirs in zip(final, weights[2], weights[3], strict=True):
        np.testing.assert_allclose(ours, np.mean(theirs, axis=0), atol=1e-7)


@pytest.mark.large
def test_the_numbers_of_a_run_are_those_of_the_mean(run):
    directory, _ = run
    evaluations = directory.events(Evaluation)
    assert [event.epoch for event in evaluations] == [1, 2, 3, None]
    mean = evaluations[-1]
    assert mean.averaged_epochs == (2, 3)
    loaded = load_classifier(directory.path, 2)
    task = get_task("sentiment")
    rows = task.encode(task.load("dev", None), loaded.tokenizer, 32)
    assert mean.metrics == pytest.approx(
        task.compute_metrics(rows.labels, predict_logits(loaded.model, rows))
    )
    (finished,) = directory.events(RunFinished)
    best = finished.best["teacher"]
    assert best.untrained_layers == ()
    for name in (
        "stage", "epoch", "averaged_epochs", "split", "metrics", "agreement",
        "collapsed",
    ):  # fmt: skip
        assert getattr(best, name) == getattr(mean, name), name


def test_no_more_is_kept_than_the_mean_needs(tmp_path):
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))

    def kept():
        return {file.name.split(".")[0] for file in tmp_path.glob("*.h5")}

    for epoch in (1, 2, 3):
        model.set_weights([np.full((2, 1), epoch**2), np.full(1, -epoch)])
        # Opened again, as after a stop.
        checkpoints = StageCheckpoints(tmp_path, averaged_epochs=(2, 3))
        checkpoints.save_epoch(model, model, epoch, 0.0)
    assert kept() == {"epoch-3", "best-1", "averaged-2", "averaged-3"}
    checkpoints.load_mean(model)
    checkpoints.finish(model, keep_best=False)
    assert kept() == {"final"}
    kernel, bias = model.get_weights()
    np.testing.assert_array_equal(kernel, [[6.5], [6.5]])
    np.testing.assert_array_equal(bias, [-2.5])
