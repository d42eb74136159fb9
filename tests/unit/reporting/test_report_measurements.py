"""The measurements of `kdkit evaluate` under the right names."""

import pytest

from kdkit.reporting import read_run
from kdkit.reporting.notes import measurements, run_notes

LENGTH = 16
OWN, OTHER, THIRD = "1" * 16, "2" * 16, "3" * 16


@pytest.fixture
def run(make_run):
    """A run on a task that notes what it was made from."""
    data = {"task": "sst2", "data_dir": "glue", "sequence_length": LENGTH}
    run = make_run("run", {"verb": "distill", "data": data, "recipe": "pkd"})
    run.log("inputs", digests={"train": THIRD, "dev": OWN})
    run.evaluation("student", "fine_tuning", 1, 0.9)
    return run


def measure(run, accuracy, rows=OWN, length=LENGTH, **more):
    fields = {
        "arm": "student",
        "task": "sst2",
        "split": "dev",
        "sequence_length": length,
        "rows_digest": rows,
        "data_digest": f"{rows[:8]}{length:08d}",
        "metrics": {"accuracy": accuracy},
        **more,
    }
    known = {name: field for name, field in fields.items() if field is not None}
    run.log("measurement", **known)


def found(run):
    return {
        where: {arm: metrics["accuracy"] for arm, metrics in arms.items()}
        for where, arms in measurements(read_run(run.run_dir)).items()
    }


def test_another_length_and_other_data_leave_the_runs_own_number(run):
    measure(run, 0.9)
    measure(run, 0.6, length=4)
    measure(run, 0.1, rows=OTHER)
    measure(run, 0.2, rows=THIRD, length=4)
    assert found(run) == {
        "dev": {"student": 0.9},
        "dev, cut to 4 tokens": {"student": 0.6},
        "dev of other data": {"student": 0.1},
        "dev of other data, cut to 4 tokens": {"student": 0.2},
    }
    notes = run_notes(read_run(run.run_dir))
    assert "kdkit evaluate on dev: student 90.0 % accuracy." in notes


def test_what_was_measured_again_in_the_same_way_counts_once(run):
    measure(run, 0.8)
    measure(run, 0.9)
    assert found(run) == {"dev": {"student": 0.9}}


def test_data_that_the_run_did_not_note_are_told_apart_where_they_differ(run):
    measure(run, 0.9, split="test")
    measure(run, 0.8, split="test", arm="teacher", data_digest=THIRD)
    assert found(run) == {"test": {"student": 0.9, "teacher": 0.8}}
    measure(run, 0.1, split="test", rows=OTHER)
    assert found(run) == {
        "test, version 1 of the data": {"student": 0.9, "teacher": 0.8},
        "test, version 2 of the data": {"student": 0.1},
    }


def test_texts_of_one_name_are_told_apart_where_they_differ(make_run):
    run = make_run("text", {"verb": "pretrain", "seed": 0, "teacher": None})
    text = {"corpus": ["/data/test.txt"], "sequence_length": 8}
    for digest, value in ((OWN, 5.0), (OTHER, 9.0), (OWN, 4.0)):
        metrics = {"perplexity": value}
        run.log("measurement", **text, data_digest=digest, metrics=metrics)
    where = "test.txt by rows of 8 tokens, version"
    assert measurements(read_run(run.run_dir)) == {
        f"{where} 1 of the data": {"teacher": {"perplexity": 4.0}},
        f"{where} 2 of the data": {"teacher": {"perplexity": 9.0}},
    }
