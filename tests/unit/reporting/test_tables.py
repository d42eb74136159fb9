"""The table and the verdict of one run: each number in its place."""

import io

import pytest
from kit.reports import own_table, page, table
from rich.console import Console

from kdkit.reporting import print_report, verdict

CHANCE = "is right in 50.9 %, the most frequent answer alone in 50.9 %"


def printed(records, width=80):
    output = io.StringIO()
    print_report(records, Console(file=output, width=width, highlight=False))
    return " ".join(output.getvalue().split())


def test_table_compares_models_and_files(distillation_run):
    found = table(distillation_run.records)
    assert list(found) == [
        "teacher",
        "teacher, LiteRT fp32",
        "control",
        "student",
        "student, LiteRT fp32",
        "student, LiteRT fp16",
        "student, LiteRT int8",
    ]
    assert found["student"] == {
        "accuracy": "83.8",
        "of teacher": "94.4",  # 0.8379 / 0.8876
        "agreement": "88.5",
        "KL divergence": "0.210",
        "parameters": "14.35",
        "size": "–",
        "median": "–",
        "p95": "–",
        "speed-up": "–",
    }
    assert found["student, LiteRT int8"] == {
        "accuracy": "83.7",
        "of teacher": "94.3",
        "agreement": "–",
        "KL divergence": "–",
        "parameters": "14.35",
        "size": "14.50",
        "median": "5.93",
        "p95": "6.46",  # 1.09 * 5.93
        "speed-up": "10×",  # 61.3 / 5.93
    }
    # Of its best epoch, the fourth of six.
    assert found["control"]["accuracy"] == "78.3"
    assert found["control"]["agreement"] == "80.1"


def test_verdict_is_made_of_the_numbers(distillation_run):
    assert verdict(distillation_run.records) == (
        "The student keeps 94.4 % of the teacher's accuracy (83.8 % of "
        "88.8 %) at 63 % of the parameters; by distillation alone its fp32 "
        "file is 4.1× faster and 1.6× smaller than the teacher's; its int8 "
        "file is 10× faster and 6.3× smaller than the teacher's fp32 file; "
        "the same student without a teacher: 78.3 %, 5.5 points less."
    )


def test_what_was_not_run_is_said(make_run):
    run = make_run("run", teacher=["bert_base"])
    run.model("student")
    run.evaluation("student", "prediction_layer", 1, 0.8)
    run.export("student", "fp16")
    found = table(run.records)
    assert set(found["control"].values()) == {"not run", "–"}
    assert found["control"]["accuracy"] == "not run"
    assert found["teacher, LiteRT file"]["size"] == "not run"
    assert found["student"]["of teacher"] == "not run"
    fp16 = found["student, LiteRT fp16"]
    assert fp16["size"] == "28.90"
    for title in ("accuracy", "of teacher", "median", "p95", "speed-up"):
        assert fp16[title] == "not run"


MATTHEWS = "matthews_correlation"


@pytest.mark.parametrize(
    ("teacher", "student", "shown"),
    [
        # Of the first metric.
        (
            {"accuracy": 0.88, "f1": 0.92},
            {"accuracy": 0.8, "f1": 0.86},
            {"accuracy": "80.0", "F1": "86.0", "of teacher": "90.9"},
        ),
        # Of a teacher that scores nothing, and of 0 to 150 % alone.
        ({MATTHEWS: 0.0}, {MATTHEWS: 0.2}, {"of teacher": "–"}),
        ({MATTHEWS: 0.2}, {MATTHEWS: 0.3}, {"of teacher": "150.0"}),
        ({MATTHEWS: 0.2}, {MATTHEWS: 0.31}, {"of teacher": "–"}),
        ({MATTHEWS: 0.2}, {MATTHEWS: 0.0}, {"of teacher": "0.0"}),
        ({MATTHEWS: 0.2}, {MATTHEWS: -0.1}, {"of teacher": "–"}),
        # Lower is better.
        ({"perplexity": 30.0}, {"perplexity": 40.1}, {"perplexity": "40.1"}),
        # Numbers alone.
        (
            {"accuracy": 0.5},
            {"accuracy": 0.5, "f1": float("nan"), "bleu": None},
            {"accuracy": "50.0", "of teacher": "100.0"},
        ),
    ],
)
def test_metrics_and_their_share_of_the_teachers(
    teacher, student, shown, make_run
):
    run = make_run("run")
    for arm, metrics in (("teacher", teacher), ("student", student)):
        run.evaluation(arm, "fine_tuning", 1, 0.0, metrics=metrics)
    found = table(run.records)["student"]
    others = {"agreement", "parameters", "size", "median", "p95", "speed-up"}
    named = {name for name in found if name not in others}
    assert {name: found[name] for name in named} == shown or (
        MATTHEWS in student and found["of teacher"] == shown["of teacher"]
    )
    has_share = shown.get("of teacher", "–") != "–"
    assert ("keeps" in verdict(run.records)) == has_share


def test_the_last_evaluation_of_an_unfinished_run_counts(make_run):
    run = make_run("run")
    run.evaluation("student", "intermediate_layer", 1, 0.9)
    run.evaluation("student", "prediction_layer", 1, 0.6)
    run.evaluation("student", "prediction_layer", 2, 0.7)
    run.evaluation("student", "prediction_layer", 2, 0.1, split="train")
    assert table(run.records)["student"]["accuracy"] == "70.0"


def test_other_dev_splits_are_kept_apart(distillation_run):
    before = table(distillation_run.records)
    for arm, accuracy in (("teacher", 0.71), ("student", 0.62)):
        distillation_run.evaluation(
            arm, "prediction_layer", 3, accuracy, split="dev_mismatched"
        )
    assert table(distillation_run.records) == before
    note = (
        "On dev_mismatched, which nothing was chosen on: teacher 71.0 % "
        "accuracy, student 62.0 % accuracy."
    )
    assert note in page(distillation_run.records)


def test_speed_up_needs_the_same_setting(make_run, teacher_run):
    run = make_run("run", teacher=[str(teacher_run.run_dir)])
    file = run.export("student", "int8")
    run.latency(file, 6.13)
    run.latency(file, 3.0, threads=2)
    found = table(run.records)
    assert found["student, LiteRT int8, 1 thread"]["speed-up"] == "10×"
    assert found["student, LiteRT int8, 2 threads"]["speed-up"] == "–"
    assert "LiteRT int8, 2 threads" in printed(run.records, 120)
    assert "Latency: batch 1, length 128." in page(run.records)


def test_a_files_latest_latency_of_each_setting_counts(make_run):
    run = make_run("run")
    file = run.export("student", "int8")
    run.latency(file, 9.0)
    run.latency(file, 6.0)
    run.latency(str(run.run_dir / file), 4.0, threads=2)
    found = table(run.records)
    for number, median in ((1, "6.00"), (2, "4.00")):
        name = f"student, LiteRT int8, {number} thread{'s'[: number - 1]}"
        assert found[name]["median"] == median
    run.export("student", "int8", size_bytes=7_000_000)  # another file
    found = table(run.records)["student, LiteRT int8"]
    assert (found["size"], found["median"]) == ("7.00", "not run")


def test_files_with_other_context_lengths_are_not_compared(make_run):
    run = make_run("run")
    file = run.export("student", "int8")
    for room, median in (((64, 64), 2.0), ((64, 32), 1.0)):
        run.latency(file, median, sequence_length=25, room=room)
    (_, first), (_, second) = [*table(run.records).items()][-2:]
    assert (first["median"], second["median"]) == ("1.00", "2.00")
    shown = printed(run.records, 200)
    assert "64 and 32" in shown, shown


def test_files_of_one_precision_are_told_apart(make_run):
    run = make_run("run")
    run.export("student", "fp32", file="a.tflite", sequence_length=64)
    run.export("student", "fp32", file="b.tflite", sequence_length=None)
    run.export("student", "fp16", file="c.tflite")
    run.export("student", "fp16", file="d.tflite")
    run.export("student", "int8", file="exports/e.tflite")
    run.export("student", "int8", file="exports/student-bundle/e.tflite")
    labels = [
        name.removeprefix("student, LiteRT ")
        for name in table(run.records)
        if name.startswith("student, ")
    ]
    assert labels == [
        "fp32, length any",
        "fp32, length 64",
        "fp16, length 128, c.tflite",
        "fp16, length 128, d.tflite",
        "int8",
        "int8, student-bundle",
    ]


def test_a_collapsed_student_has_no_gains(make_distillation):
    run = make_distillation("run", student=0.509)
    run.evaluation("student", "prediction_layer", 3, 0.509, collapsed=CHANCE)
    text = verdict(run.records)
    assert f"The student has collapsed (50.9 % accuracy): it {CHANCE}" in text
    assert "keeps" not in text
    assert "faster" not in text
    for shown in (page(run.records), printed(run.records)):
        assert "The student has collapsed" in shown


def test_terminal_report_takes_no_name_for_markup(make_run):
    run = make_run("run", recipe="[red]", data=own_table("[/red]"))
    assert printed(run.records).startswith("[red] on [/red] ")
