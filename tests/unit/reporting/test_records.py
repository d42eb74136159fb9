"""What is read of a run: its teacher, its damaged lines, its measurements."""

import json
import re
import subprocess
import sys

import pytest
from kit.reports import config, page, table

STEP = config("teacher").model_dump(mode="json")


@pytest.mark.parametrize("place", ["", "teacher"])
def test_the_teachers_run_is_that_of_its_model(place, make_run, teacher_run):
    teacher = teacher_run.run_dir / place
    teacher.mkdir(exist_ok=True)
    records = make_run("run", teacher=[str(teacher)]).records
    assert records.teacher_run.run_dir == teacher_run.run_dir
    assert records.remarks == ()
    assert table(records)["teacher"]["accuracy"] == "88.8"


def test_a_teacher_that_the_run_trained_is_found(make_run, make_teacher):
    run = make_run("run", teacher=["run:teacher"], steps={"teacher": STEP})
    assert run.records.teacher_run is None
    teacher = make_teacher("run/teacher_run")
    assert run.records.teacher_run.run_dir == teacher.run_dir


def test_student_of_another_run_may_be_the_teacher(make_run, distillation_run):
    run = make_run("second", teacher=[str(distillation_run.run_dir)])
    found = table(run.records)
    assert found["teacher"]["accuracy"] == "83.8"
    assert found["teacher"]["parameters"] == "14.35"
    sizes = [
        found[f"teacher, LiteRT {precision}"]["size"]
        for precision in ("fp32", "fp16", "int8")
    ]
    assert sizes == ["57.60", "28.90", "14.50"]


def test_lines_that_are_no_events_are_named(distillation_run, teacher_run):
    whole = distillation_run.records
    with open(teacher_run.run_dir / "metrics.jsonl", "a") as file:
        file.write("{")
    path = distillation_run.run_dir / "metrics.jsonl"
    lines = path.read_text().splitlines()
    count = len(lines) + 2  # the last line is that of a process that died
    lines[2:2] = ["[]"]
    path.write_text("\n".join([*lines, '{"event": "epoch", "arm": "stu']))
    records = distillation_run.records
    assert records.events == whole.events
    first, second = records.remarks
    assert first.endswith(f"line 3, {count}.")
    assert second.startswith("Teacher's run: ")


OWN, OTHER, THIRD = "1" * 16, "2" * 16, "3" * 16


@pytest.fixture
def measured(make_run):
    """A function of measurements: the places that a page names, by number."""

    def find(*measurements):
        data = {"task": "sst2", "data_dir": "glue", "sequence_length": 16}
        run = make_run("run", data=data)
        run.log("inputs", digests={"train": THIRD, "dev": OWN})
        run.evaluation("student", "fine_tuning", 1, 0.9)
        for percent, rows, length, more in measurements:
            run.log(
                "measurement",
                **{
                    "arm": "student",
                    "task": "sst2",
                    "split": "dev",
                    "sequence_length": length,
                    "data_digest": rows,
                    "metrics": {"accuracy": percent / 100},
                    **more,
                },
            )
        told = r"kdkit evaluate, \w+: (\d+)\.0 % accuracy \((.*?)\)"
        notes = re.findall(told, page(run.records))
        return {int(percent): where for percent, where in notes}

    return find


def test_another_length_and_other_data_leave_the_runs_own_number(measured):
    assert measured(
        (80, OWN, 16, {}),
        (90, OWN, 16, {}),  # measured again
        (60, OWN, 4, {}),
        (10, OTHER, 16, {}),
        (20, THIRD, 4, {}),
    ) == {
        90: "task sst2, split dev, sequence length 16",
        60: "task sst2, split dev, sequence length 4",
        10: "task sst2, split dev, sequence length 16, content 22222222",
        20: "task sst2, split dev, sequence length 4, content 33333333",
    }


def test_texts_of_one_name_are_told_apart_where_they_differ(make_run):
    run = make_run("text", "text")
    run.evaluation("decoder", "s", 1, 0.0, metrics={"perplexity": 2.0})
    text = {"corpus": ["/data/test.txt"], "sequence_length": 8}
    for digest, value in ((OWN, 5.0), (OTHER, 9.0), (OWN, 4.0)):
        metrics = {"perplexity": value}
        run.log("measurement", **text, data_digest=digest, metrics=metrics)
    shown = page(run.records)
    for digest, value in (("11111111", "4.000"), ("22222222", "9.000")):
        where = f"corpus test.txt, sequence length 8, content {digest}"
        assert f"model: {value} perplexity ({where})." in shown
    assert "5.000 perplexity" not in shown


def test_reports_need_no_keras(distillation_run):
    program = (
        "import sys, json, kdkit.reporting as reporting\n"
        f"records = reporting.read_run({str(distillation_run.run_dir)!r})\n"
        "reporting.render_report([records])\n"
        "print(json.dumps([n for n in sys.modules if n in "
        "('keras', 'tensorflow', 'matplotlib.pyplot')]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True
    )
    assert json.loads(done.stdout) == []
