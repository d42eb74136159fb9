"""Lines while a stage trains: the time left is that of computing."""

import logging
import time

import pytest

from kdkit.training.callbacks import Progress
from kdkit.training.callbacks import seconds_of_step


@pytest.fixture
def steps(monkeypatch, caplog):
    """A function of the seconds of steps; returns the messages about them."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def run(seconds, steps_per_epoch=100, epochs=1):
        caplog.set_level(logging.DEBUG, "kdkit")
        lines = Progress("student", epochs, steps_per_epoch, 20.0)
        for epoch in range(epochs):
            lines.on_epoch_begin(epoch)
            for batch, passed in enumerate(seconds if not epoch else [20.0]):
                clock[0] += passed
                lines.on_train_batch_end(batch, {"loss": 1.0})
        return caplog.messages

    return run


def test_time_left_does_not_count_compilation(steps):
    """Of two lengths, each of which is compiled in its first step."""
    (first, second, third) = steps([20.0, 0.5, 24.0, *[0.5, 1.5] * 10])
    assert "step 1/100, loss" in first  # only a compilation is known
    assert "step 3/100, 48 s left" in second  # 97 steps of 0.5 s
    # All 64.5 s for 23 steps would make 3 min 36 s of the 77 that are left.
    assert "step 23/100, 1 min 15 s left" in third


def test_later_epochs_know_the_steps_before(steps):
    *_, last = steps([20.0, *[0.5] * 30], epochs=2)
    assert "epoch 2/2, step 1/100, 50 s left" in last


def test_lengths_of_batches_count_by_how_often_they_come():
    seconds = [0.1] * 30 + [0.6] * 10 + [15.0, 12.0]
    assert seconds_of_step(seconds) == pytest.approx(9.0 / 40)
