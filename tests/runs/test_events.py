"""kdkit.runs.events: one class a kind, which writes and reads it."""

import dataclasses
import json
import pathlib

import pytest

from kdkit.errors import UsageError
from kdkit.export import LatencyReport
from kdkit.runs import events
from kdkit.runs.directory import RunDirectory

RECORDS = pathlib.Path(__file__).parents[2] / "docs/measured/runs.jsonl"
KINDS = events.Event.__subclasses__()
EPOCH = {
    "event": "epoch", "time": 1.5, "arm": "student", "stage": "a", "epoch": 1,
    "step": 2, "seconds": 1, "logs": {"loss": 0.5},
}  # fmt: skip


@pytest.fixture(scope="module")
def recorded():
    """The lines of all events in the documents, by kind."""
    found = {}
    with RECORDS.open() as file:
        for record in map(json.loads, file):
            for line in record["events"]:
                found.setdefault(line["event"], []).append(line)
    return found


@pytest.mark.parametrize(
    "kind",
    [
        events.Augmented, events.Doctor, events.Epoch, events.Evaluation,
        events.Export, events.Inputs, events.Latency, events.Measurement,
        events.Model, events.RunFinished, events.StageFinished,
        events.TeacherCache, events.Unlabeled,
    ],
    ids=lambda kind: kind.__name__,
)  # fmt: skip
def test_lines_of_earlier_versions_are_read_and_written_as_they_were(
    kind, recorded
):
    for line in recorded[kind.kind]:
        event = events.read_event(line)
        assert type(event) is kind
        fields = json.loads(json.dumps(event.to_dict()))
        assert {"event": kind.kind, "time": event.time, **fields} == line


@pytest.mark.parametrize(
    "kind", [*KINDS, events.Best], ids=lambda kind: kind.__name__
)
def test_every_field_is_described(kind):
    described = kind.__doc__
    if kind is events.Latency:
        described += LatencyReport.__doc__
    for field in dataclasses.fields(kind):
        assert field.name == "line" or f"{field.name}: " in described


def test_an_event_is_read_as_it_was_logged(tmp_path):
    run = RunDirectory(tmp_path)
    best = events.Best(stage="a", epoch=None, averaged_epochs=(1, 2))
    logged = [
        events.Evaluation(arm="teacher", epoch=None, split="dev", metrics={}),
        events.RunFinished(seconds=2.0, best={"student": best}),
    ]
    for event in logged:
        run.log(event)
    assert run.events() == logged
    assert run.events(events.RunFinished) == logged[1:]


def test_a_line_has_the_fields_that_were_passed():
    event = events.Evaluation(arm="teacher", epoch=None, split="dev")
    assert event.stage is None
    assert event.to_dict() == {"arm": "teacher", "epoch": None, "split": "dev"}


def test_what_a_later_version_added_stays_in_the_line():
    later = EPOCH | {"loss_scale": 8}
    event = events.read_event(later)
    assert type(event) is events.Epoch
    assert event.line == later
    assert event == events.read_event(EPOCH)
    other = {"event": "rewritten", "time": 1, "arm": ["a"]}
    assert type(events.read_event(other)) is events.Event
    assert events.read_event(other).line == other


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": True}, {"epoch": 1.0}, {"epoch": -1}, {"epoch": 2**53 + 1},
        {"seconds": float("nan")}, {"seconds": 1e101}, {"seconds": "1"},
        {"logs": []}, {"arm": "nobody"}, {"time": -1}, {"event": None},
        {"less_teacher_entropy": ["a", 1]}, {"more": 10**30},
    ],
    ids=str,
)  # fmt: skip
def test_a_line_whose_fields_are_of_other_types_is_no_event(change):
    assert events.read_event(EPOCH) is not None
    assert events.read_event(EPOCH | change) is None


@pytest.mark.parametrize("name", ["arm", "stage", "epoch", "seconds", "logs"])
def test_a_line_that_lacks_a_needed_field_is_no_event(name):
    line = {key: value for key, value in EPOCH.items() if key != name}
    assert events.read_event(line) is None


def test_an_impossible_event_is_not_made():
    with pytest.raises(UsageError, match="Got epoch 1 and no stage"):
        events.Evaluation(arm="student", epoch=1, split="dev")
    with pytest.raises(TypeError, match="accuracy"):
        events.Evaluation(arm="student", split="dev", accuracy=0.5)
