"""A stopped run ends with the same bytes as one that was not stopped."""

import contextlib
import json

import pytest
import tensorflow as tf
from kit.adapter import command
from kit.helpers import (
    as_users,
    eager_steps,
    large_except,
    read_events,
    stopped_after_save,
)
from kit.runs import RUNS
from tensorboard.backend.event_processing import event_accumulator

# Not: two_devices, a process of its own, and runs that differ from others by
# where their rows come from.
KINDS = [
    name for name in RUNS if name not in ("two_devices", "cached", "augmented")
]
QUICK = ("pkd", "pretrained", "sentence_embedding")
# Before a run is stopped. Of chains, these are in the last step.
SAVES = {
    "quantized": 8,
    "reranker_to_embedder": 3,
    "next_tokens": 30,
    "spans_and_pairs": 24,
}
STOPPED = 130
OFTEN = ("--set", "training.checkpoint_minutes=0")
NOT_COMPUTED = ("time", "seconds", "findings", "memory")


def events(run):
    """What a run has logged, but when and how long."""
    return [
        {key: event[key] for key in event if key not in NOT_COMPUTED}
        for event in read_events(run)
    ]


def curves(run):
    """TensorBoard's points, by curve, tag and step."""
    points = {}
    for folder in {file.parent for file in run.rglob("events.out.*")}:
        reader = event_accumulator.EventAccumulator(str(folder))
        reader.Reload()
        name = folder.relative_to(run)
        for tag in reader.Tags()["tensors"]:
            for event in reader.Tensors(tag):
                points[str(name), tag, event.step] = float(
                    tf.make_ndarray(event.tensor_proto)
                )
    return points


def files(run):
    """The contents of all files but logs and the settings of runs."""
    return {
        str(file.relative_to(run)): file.read_bytes()
        for file in run.rglob("*")
        if file.is_file()
        and file.name not in ("metrics.jsonl", ".lock")
        and "events.out" not in file.name
        and (file.name != "config.json" or file.parent.name == "student")
    }


def settings(run):
    """A run's settings, but for how often it saves and where it was made."""
    left_out = ("checkpoint_minutes", "provenance")
    return json.loads(
        (run / "config.json").read_text(),
        object_hook=lambda part: {
            key: part[key] for key in part if key not in left_out
        },
    )


@pytest.mark.parametrize("name", large_except(KINDS, *QUICK))
def test_a_stopped_run_ends_with_the_same_bytes(name, workspace, tmp_path):
    whole, run = workspace.make(name), tmp_path / "run"
    steps = contextlib.nullcontext if RUNS[name].traced else eager_steps
    words = [*RUNS[name].words, "--run-dir", run]
    with as_users(), steps():
        with stopped_after_save(SAVES.get(name, 4)):
            assert command(workspace.words([*words, *OFTEN])).status == STOPPED
            raise KeyboardInterrupt  # the command line caught its own
        assert not (run / "student").exists()
        assert command(workspace.words(words)).status == 0
    assert settings(run) == settings(whole)
    assert events(run) == events(whole)
    assert curves(run) == curves(whole)
    assert curves(run)
    assert files(run) == files(whole)
