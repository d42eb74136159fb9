"""Progress of a stage: the time left counts computing only."""

import logging
import time

import pytest

from kdkit.training.callbacks import Progress, seconds_of_step


@pytest.fixture
def steps(monkeypatch, caplog):
    """A function of the seconds of steps; returns the messages about them."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def run(seconds, steps_per_epoch=100, epochs=1):
        caplog.set_level(logging.DEBUG, "kdkit")
        lines = Progress(
            "student", epochs, steps_per_epoch, seconds_between=20.0
        )
        for epoch in range(epochs):
            lines.on_epoch_begin(epoch)
            for batch, passed in enumerate(seconds if not epoch else [20.0]):
                clock[0] += passed
                lines.on_train_batch_end(batch, {"loss": 1.0})
        return caplog.messages

    return run


def test_time_left_does_not_count_compilation(steps):
    """Of two lengths, each of which is compiled in its first step."""
    begin, first, second, third = steps([20.0, 0.5, 24.0, *[0.5, 1.5] * 10])
    assert begin == "student: epoch 1/1, step 0/100, compiling the first step"
    assert "step 1/100: loss" in first  # only a compilation is known
    assert "step 3/100, 48 s left" in second  # 97 steps of 0.5 s
    # All 64.5 s for 23 steps would make 3 min 36 s of the 77 that are left.
    assert "step 23/100, 1 min 15 s left" in third


def test_time_left_is_that_of_the_stage_with_dev(monkeypatch, caplog):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    caplog.set_level(logging.DEBUG, "kdkit")
    lines = Progress("student", 3, 2, "accuracy", seconds_between=0.0)
    for epoch, accuracy in enumerate((0.9, 0.8)):
        lines.on_epoch_begin(epoch)
        for batch in range(2):
            clock[0] += 1.0
            lines.on_train_batch_end(batch, {"loss": 1.0})
        clock[0] += 5.0  # on dev
        lines.on_epoch_end(epoch, {"val_accuracy": accuracy})
    shown = [
        record.progress
        for record in caplog.records
        if hasattr(record, "progress")
    ]
    *_, before, last = shown
    # 3 steps of 1 s and dev of 5 s, twice.
    assert (before.epoch, before.step, before.seconds_left) == (2, 1, 13.0)
    assert (last.doing, last.seconds_left) == ("measuring on dev", 12.0)
    assert last.dev == "accuracy 0.9000 (best 0.9000)"
    lines.on_epoch_begin(2)
    lines.on_train_batch_end(0, {"loss": 1.0})
    assert caplog.records[-1].progress.dev == "accuracy 0.8000 (best 0.9000)"


def test_lengths_of_batches_count_by_how_often_they_come():
    seconds = [0.1] * 30 + [0.6] * 10 + [15.0, 12.0]
    assert seconds_of_step(seconds) == pytest.approx(9.0 / 40)
