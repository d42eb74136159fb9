"""Progress of a stage: its lines, and the time left."""

import logging
import time
import types

import pytest

from kdkit.training.callbacks import Progress, seconds_of_step


def test_time_left_is_that_of_the_stage_with_dev(monkeypatch, caplog):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    caplog.set_level(logging.DEBUG, "kdkit")
    logs = {"loss": 1.0, "learning_rate": 0.1}
    source = types.SimpleNamespace(metric="accuracy", larger_is_better=True)
    lines = Progress("student", 3, 2, source)
    for epoch, accuracy in enumerate((0.9, 0.8)):
        lines.on_epoch_begin(epoch)
        for batch in range(2):
            clock[0] += 1.0
            lines.on_train_batch_end(batch, {"loss": 1.0})
        clock[0] += 5.0  # on dev
        lines.on_epoch_end(epoch, logs | {"val_accuracy": accuracy})
    shown = [
        record.progress
        for record in caplog.records
        if hasattr(record, "progress")
    ]
    assert shown[0].doing == "compiling the first step"
    *_, before, last = shown
    # 3 steps of 1 s and dev of 5 s, twice.
    assert (before.epoch, before.step, before.seconds_left) == (2, 1, 13.0)
    assert (last.doing, last.seconds_left) == ("measuring on dev", 12.0)
    assert last.dev == "accuracy 0.9000 (best 0.9000)"
    assert "epoch 2/3, done in" in caplog.messages[-1]
    lines.on_epoch_begin(2)
    clock[0] += 1.0
    lines.on_train_batch_end(0, {"loss": 1.0})
    assert caplog.records[-1].progress.dev == "accuracy 0.8000 (best 0.9000)"


def test_lengths_of_batches_count_by_how_often_they_come():
    seconds = [0.1] * 30 + [0.6] * 10 + [15.0, 12.0]
    assert seconds_of_step(seconds) == pytest.approx(9.0 / 40)
