"""kdkit.runs.events: one class a kind, which writes and reads it."""

import json
import math

from kdkit.runs import events
from kdkit.runs.directory import Run

EPOCH = {
    "event": "epoch", "time": 1.5, "arm": "student", "stage": "a", "epoch": 1,
    "step": 2, "seconds": 1, "logs": {"loss": 0.5},
}  # fmt: skip


def test_events_are_read_as_they_were_logged(tmp_path):
    run = Run(tmp_path)
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
        events.RunFinished(
            seconds=2.0, best={"student": events.Best(stage="a", epoch=2)}
        ),
        events.Export(
            arm="student", file="a.tflite", format="litert", title="LiteRT",
            precision="int8", size_bytes=10, max_abs_difference=0.5,
            examples=9, metrics={"accuracy": 0.5},
        ),
        events.Latency(
            file="a.tflite", median_ms=0.5, p95_ms=0.7, threads=1,
            batch_size=1, sequence_length=8, warmup=1, runs=9,
            size_bytes=10, room=(8, 8),
        ),
        events.Measurement(arm="student", corpus=("a.txt",), stride=64),
    ]  # fmt: skip
    assert set(map(type, logged)) == set(events.Event.__subclasses__())
    for event in logged:
        run.log(event)
    assert run.events() == logged
    assert run.events(events.RunFinished) == [logged[8]]


def test_the_last_event_of_a_key_counts_in_the_place_of_the_first(tmp_path):
    """As a run logs it that was killed and repeats an epoch."""
    run = Run(tmp_path)
    where = {"arm": "student", "stage": "a", "epoch": 1, "split": "dev"}
    first, again, *others = (
        events.Evaluation(**where | change)
        for change in (
            *({"metrics": {"loss": value}} for value in (math.nan, 0.5)),
            *({"split": "test"}, {"epoch": 2}, {"arm": "control"}),
        )
    )
    # An event whose values are the last ones of its key is not repeated.
    for event in (first, first, *others, *others, again, again):
        run.log(event)
    assert run.events() == [again, *others]
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 5
    for examples in (1, 2, 2):  # of no key
        run.log(events.Measurement(examples=examples))
    assert len(run.events(events.Measurement)) == 3


def test_what_a_later_version_added_and_what_is_no_event_is_left_out(tmp_path):
    lines = [
        EPOCH | {"loss_scale": 8},
        *(
            {key: value for key, value in EPOCH.items() if key != name}
            for name in ("event", "time", "stage", "epoch", "seconds", "logs")
        ),
        EPOCH | {"event": "rewritten"},
        EPOCH | {"event": ["epoch"]},
        [],
    ]
    log = tmp_path / "metrics.jsonl"
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (event,), damaged = events.read_log(log)
    assert event == events.Epoch(
        arm="student", stage="a", epoch=1, step=2, seconds=1,
        logs={"loss": 0.5},
    )  # fmt: skip
    assert event.time == 1.5
    assert damaged == [*range(2, 11)]
