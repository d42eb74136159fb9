import io

import pytest
from rich.console import Console

from kdkit.reporting import comparison_table, print_report
from kdkit.reporting.notes import run_notes
from kdkit.reporting.records import read_run
from kdkit.reporting.summary import verdict


def table_texts(records):
    """The cells of the table as text, by (arm, label) and column title."""
    table = comparison_table([records])
    titles = [column.title for column in table.columns]
    return {
        (row.kind, row.name if row.parent else "Keras"): dict(
            zip(titles, row.cells, strict=True)
        )
        for row in table.rows
    }


def printed(records, width=80):
    output = io.StringIO()
    print_report(records, Console(file=output, width=width, highlight=False))
    return output.getvalue()


def test_table_compares_models_and_files(distillation_run):
    texts = table_texts(read_run(distillation_run.run_dir))
    assert list(texts) == [
        ("teacher", "Keras"),
        ("teacher", "LiteRT fp32"),
        ("control", "Keras"),
        ("student", "Keras"),
        ("student", "LiteRT fp32"),
        ("student", "LiteRT fp16"),
        ("student", "LiteRT int8"),
    ]
    assert texts["student", "Keras"] == {
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
    assert texts["student", "LiteRT int8"] == {
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
    assert texts["control", "Keras"]["accuracy"] == "78.3"


def test_table_says_not_run_for_what_was_not_run(make_run):
    run = make_run("run", {"recipe": "tinybert", "teacher": "bert_base"})
    run.model("student")
    run.evaluation("student", "prediction_layer", 1, 0.8)
    run.export("student", "fp16")
    texts = table_texts(read_run(run.run_dir))
    assert set(texts["control", "Keras"].values()) == {"not run", "–"}
    assert texts["control", "Keras"]["accuracy"] == "not run"
    assert texts["teacher", "LiteRT file"]["size"] == "not run"
    assert texts["student", "Keras"]["of teacher"] == "not run"
    fp16 = texts["student", "LiteRT fp16"]
    assert fp16["size"] == "28.90"
    for title in ("accuracy", "of teacher", "median", "p95", "speed-up"):
        assert fp16[title] == "not run"


def test_table_shows_every_metric_of_the_task(make_run):
    run = make_run(
        "run", {"recipe": "pkd", "data": {"task": "mrpc"}, "teacher": "x"}
    )
    for arm, accuracy, f1 in (("teacher", 0.88, 0.92), ("student", 0.8, 0.86)):
        metrics = {"accuracy": accuracy, "f1": f1}
        run.evaluation(arm, "fine_tuning", 1, 0.0, metrics=metrics)
    student = table_texts(read_run(run.run_dir))["student", "Keras"]
    assert student["accuracy"] == "80.0"
    assert student["F1"] == "86.0"
    assert student["of teacher"] == "90.9"  # of the first metric


def test_table_has_no_share_of_a_teacher_that_scores_nothing(make_run):
    run = make_run(
        "run", {"recipe": "pkd", "data": {"task": "cola"}, "teacher": "x"}
    )
    for arm, value in (("teacher", 0.0), ("student", 0.2)):
        metrics = {"matthews_correlation": value}
        run.evaluation(arm, "fine_tuning", 1, 0.0, metrics=metrics)
    records = read_run(run.run_dir)
    assert table_texts(records)["student", "Keras"]["of teacher"] == "–"
    assert "keeps" not in verdict(records)


@pytest.mark.parametrize(
    ("student", "shown"),
    [(0.3, "150.0"), (0.31, "–"), (0.0, "0.0"), (-0.1, "–")],
)
def test_tables_have_shares_from_0_to_150_percent(make_run, student, shown):
    run = make_run("pkd", {"data": {"task": "cola"}, "teacher": "x"})
    for arm, value in (("teacher", 0.2), ("student", student)):
        metrics = {"matthews_correlation": value}
        run.evaluation(arm, "fine_tuning", 1, 0.0, metrics=metrics)
    texts = table_texts(read_run(run.run_dir))
    assert texts["student", "Keras"]["of teacher"] == shown


def test_table_has_no_share_where_lower_is_better(make_run):
    run = make_run("run", {"recipe": "lightpaff", "teacher": "x"})
    run.evaluation("student", "s", 1, 0.0, metrics={"perplexity": 40.1})
    records = read_run(run.run_dir)
    assert "of teacher" not in table_texts(records)["student", "Keras"]


def test_speed_up_needs_the_same_setting(make_run, teacher_run):
    run = make_run("run", {"teacher": str(teacher_run.run_dir)})
    file = run.export("student", "int8")
    run.latency(file, 6.13)
    run.latency(file, 3.0, threads=2)
    records = read_run(run.run_dir)
    texts = table_texts(records)
    assert texts["student", "LiteRT int8, 1 thread"]["speed-up"] == "10×"
    assert texts["student", "LiteRT int8, 2 threads"]["speed-up"] == "–"
    assert "LiteRT int8, 2 threads" in " ".join(printed(records, 120).split())
    assert "Latency: batch 1, length 128." in " ".join(run_notes(records))


def test_files_of_one_precision_are_told_apart(make_run):
    run = make_run("run", {"teacher": "x"})
    run.export("student", "fp32", file="a.tflite", sequence_length=64)
    run.export("student", "fp32", file="b.tflite", sequence_length=None)
    run.export("student", "fp16", file="c.tflite")
    run.export("student", "fp16", file="d.tflite")
    run.export("student", "int8", file="exports/e.tflite")
    run.export("student", "int8", file="exports/student-bundle/e.tflite")
    labels = [
        name
        for arm, name in table_texts(read_run(run.run_dir))
        if arm == "student"
    ]
    assert labels == [
        "Keras",
        "LiteRT fp32, length any",
        "LiteRT fp32, length 64",
        "LiteRT fp16, length 128, c.tflite",
        "LiteRT fp16, length 128, d.tflite",
        "LiteRT int8",
        "LiteRT int8, student-bundle",
    ]


def test_verdict_is_made_of_the_numbers(distillation_run):
    assert verdict(read_run(distillation_run.run_dir)) == (
        "The student keeps 94.4 % of the teacher's accuracy (83.8 % of "
        "88.8 %) at 63 % of the parameters; by distillation alone its fp32 "
        "file is 4.1× faster and 1.6× smaller than the teacher's; its int8 "
        "file is 10× faster and 6.3× smaller than the teacher's fp32 file; "
        "the same student without a teacher: 78.3 %, 5.5 points less."
    )


def test_terminal_report_takes_no_name_for_markup(make_run):
    run = make_run("run", {"recipe": "[red]", "data": {"task": "[/red]"}})
    assert printed(read_run(run.run_dir)).startswith("[red] on [/red]\n")
