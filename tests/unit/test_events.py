"""kdkit.runs.events: one class a kind, which writes and reads it."""

import pytest

from kdkit.runs import events
from kdkit.runs.directory import RunDirectory

EPOCH = {
    "event": "epoch", "time": 1.5, "arm": "student", "stage": "a", "epoch": 1,
    "step": 2, "seconds": 1, "logs": {"loss": 0.5},
}  # fmt: skip


def test_events_are_read_as_they_were_logged(tmp_path):
    run = RunDirectory(tmp_path)
    logged = [
        events.Inputs(digests={"teacher": "ab", "files": {"a": "cd"}}),
        events.Doctor(findings=({"check": "data"},), forced=False),
        events.Model(arm="student", name="BERT 2×8", parameters=9),
        events.Unlabeled(rows=3, dropped=1, compared_with=("dev", "test")),
        events.Augmented(rows=2, copies=6, left_out=0, rows_of_epoch=8),
        events.TeacherCache(precision="bf16", relative_errors=({"a": 0.1},)),
        events.Epoch(
            arm="student", stage="a", epoch=1, seconds=0.5,
            logs={"loss": 0.5}, less_teacher_entropy=("loss",),
        ),
        events.Evaluation(arm="teacher", epoch=None, split="dev", metrics={}),
        events.StageFinished(arm="student", stage="a", seconds=1.5),
        events.RunFinished(
            seconds=2.0, best={"student": events.Best(stage="a", epoch=2)}
        ),
        events.Export(
            arm="student", file="a.tflite", format="litert",
            precision="int8", size_bytes=10,
        ),
        events.Latency(
            file="a.tflite", median_ms=0.5, p95_ms=0.7, threads=1,
            batch_size=1, sequence_length=8, room=(8, 8),
        ),
        events.Measurement(arm="student", corpus=("a.txt",), stride=64),
    ]  # fmt: skip
    assert set(map(type, logged)) == set(events.Event.__subclasses__())
    for event in logged:
        run.log(event)
    assert run.events() == logged
    assert run.events(events.RunFinished) == [logged[9]]


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
        *(dict.fromkeys([name]) for name in ("arm", "stage", "seconds")),
        {"epoch": True}, {"epoch": 1.0}, {"epoch": -1}, {"epoch": 2**53 + 1},
        {"seconds": float("nan")}, {"seconds": 1e101}, {"seconds": "1"},
        {"logs": []}, {"time": -1}, {"event": None},
        {"less_teacher_entropy": ["a", 1]},
    ],
    ids=str,
)  # fmt: skip
def test_a_line_whose_fields_are_of_other_types_is_no_event(change):
    assert events.read_event(EPOCH | change) is None


def test_a_line_that_lacks_a_needed_field_is_no_event():
    for name in ("arm", "stage", "epoch", "seconds", "logs"):
        line = {key: value for key, value in EPOCH.items() if key != name}
        assert events.read_event(line) is None, name
