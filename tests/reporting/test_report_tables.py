import io

import pytest
from rich.console import Console

from kdkit.reporting import comparison_table, print_report
from kdkit.reporting.notes import run_notes
from kdkit.reporting.page import legend
from kdkit.reporting.records import read_run
from kdkit.reporting.summary import run_title, verdict
from kdkit.reporting.tables import Column, Row, Table


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


def test_one_table_has_a_markdown_and_a_terminal_form():
    columns = (Column("size", "MB"), Column("of | it", is_text=True))
    rows = (
        Row("*student*", ("1.5", "a|b"), note=" (2 runs)"),
        Row("int8", ("not run", ""), parent="*student*"),
    )
    table = Table("model", columns, rows)
    assert table.markdown().splitlines() == [
        "| model | size, MB | of \\| it |",
        "| --- | ---: | --- |",
        "| **\\*student\\*** (2 runs) | 1.5 | a\\|b |",
        "| \\*student\\*, int8 | not run |  |",
    ]
    output = io.StringIO()
    Console(file=output, width=60).print(table.terminal())
    lines = [line.split() for line in output.getvalue().splitlines()]
    assert ["*student*", "(2", "runs)", "1.5", "a|b"] in lines
    assert ["int8", "not", "run"] in lines


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


def test_table_writes_correlations_and_regression_agreement(make_run):
    run = make_run(
        "run", {"recipe": "pkd", "data": {"task": "stsb"}, "teacher": "x"}
    )
    run.evaluation("teacher", None, None, 0.0, metrics={"pearson": 0.9})
    run.evaluation(
        "student",
        "prediction_layer",
        1,
        0.0,
        metrics={"pearson": 0.81},
        agreement={"mean_squared_difference": 0.042},
    )
    student = table_texts(read_run(run.run_dir))["student", "Keras"]
    assert student["pearson"] == "0.810"
    assert student["of teacher"] == "90.0"
    assert student["mean squared difference"] == "0.042"


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


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ({"reads_tokens": True}, "that of one token"),
        ({"reads_sources": True}, "that of one sentence"),
    ],
)
def test_a_latency_says_what_it_is_of(make_run, kind, said):
    run = make_run("run", {"teacher": "x"})
    file = run.export("student", "int8")
    run.latency(file, 6.13)
    assert said not in " ".join(run_notes(read_run(run.run_dir)))
    run.latency(file, 6.13, **kind)
    notes = " ".join(run_notes(read_run(run.run_dir)))
    assert said in notes
    assert "Speed-up is" not in notes
    assert "needs the teacher's fp32 LiteRT file: kdkit export RUN" in notes
    run.latency(run.export("teacher", "fp32"), 12.0, **kind)
    notes = " ".join(run_notes(read_run(run.run_dir)))
    assert "Speed-up is over the teacher's fp32" in notes
    assert "needs" not in notes


def test_a_measured_file_of_the_teacher_is_in_the_table_and_the_notes(
    make_distillation,
):
    run = make_distillation("run", teacher="/models/bert")
    run.latency(run.export("teacher", "int8", 0.88), 25.0)
    records = read_run(run.run_dir)
    int8 = table_texts(records)["teacher", "LiteRT int8"]
    assert (int8["median"], int8["speed-up"]) == ("25.0", "–")
    notes = run_notes(records)
    assert not any("not known" in note or "/models" in note for note in notes)
    assert "not run" not in legend(comparison_table([records]))


def test_only_a_student_with_files_has_sizes_for_the_control(
    make_distillation,
):
    for exported in (True, False):
        run = make_distillation(f"run{exported}", exported=exported)
        notes = " ".join(run_notes(read_run(run.run_dir)))
        assert ("The control was not exported" in notes) == exported


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


def test_files_of_other_formats_are_rows_with_their_title(make_run):
    run = make_run("run", {"teacher": "x"})
    run.export("student", "fp32", file="a.npz", format="w", title="Weights")
    file = run.export(
        "student", "int8", file="b.onnx", format="onnx", title="ONNX"
    )
    run.export("student", "fp32")
    run.latency(file, 6.13)
    labels = [
        name
        for arm, name in table_texts(read_run(run.run_dir))
        if arm == "student"
    ]
    assert labels == ["Keras", "LiteRT fp32", "ONNX int8", "Weights fp32"]


def test_teacher_run_has_rows_of_the_teacher_alone(teacher_run):
    records = read_run(teacher_run.run_dir)
    assert list(table_texts(records)) == [
        ("teacher", "Keras"),
        ("teacher", "LiteRT fp32"),
    ]
    assert run_title(records) == "teacher on sst2"
    assert verdict(records) == (
        "The teacher reaches 88.8 % accuracy on 872 dev examples."
    )


def test_verdict_is_made_of_the_numbers(distillation_run):
    assert verdict(read_run(distillation_run.run_dir)) == (
        "The student keeps 94.4 % of the teacher's accuracy (83.8 % of "
        "88.8 %) at 63 % of the parameters; by distillation alone its fp32 "
        "file is 4.1× faster and 1.6× smaller than the teacher's; its int8 "
        "file is 10× faster and 6.3× smaller than the teacher's fp32 file; "
        "the same student without a teacher: 78.3 %, 5.5 points less."
    )


def test_verdict_says_that_distilling_did_not_help(make_distillation):
    run = make_distillation("run", student=0.78, control=0.84)
    assert verdict(read_run(run.run_dir)).endswith(
        "without a teacher: 84.0 %, 6.0 points more, so that distilling did "
        "not help."
    )


def test_verdict_names_a_control_that_was_not_trained(make_run):
    run = make_run("run", {"recipe": "static_embedding", "teacher": "x"})
    run.evaluation("teacher", None, None, 0.9)
    run.evaluation("student", "distillation", 1, 0.85)
    run.evaluation("control", None, None, 0.8)
    assert verdict(read_run(run.run_dir)).endswith(
        "; the student before training: 80.0 %, 5.0 points less."
    )


def test_verdict_says_what_was_not_run(make_run):
    run = make_run("run", {"recipe": "tinybert", "teacher": "x"})
    assert verdict(read_run(run.run_dir)) == "Nothing has been evaluated yet."
    run.evaluation("student", "prediction_layer", 1, 0.8)
    assert verdict(read_run(run.run_dir)) == (
        "The student reaches 80.0 % accuracy; the same student without a "
        "teacher was not run."
    )


def test_verdict_gives_small_students_as_fractions(make_run):
    run = make_run("run", {"recipe": "tinybert", "teacher": "x"})
    run.log("model", arm="teacher", parameters=109_482_240)
    run.log("model", arm="student", parameters=14_350_248)
    run.evaluation("teacher", None, None, 0.9)
    run.evaluation("student", "prediction_layer", 1, 0.8)
    assert "at 1/8 of the parameters" in verdict(read_run(run.run_dir))


def test_notes_say_what_to_mind(make_run):
    settings = {"teacher": "x", "data": {"task": "sentiment"}}
    run = make_run("run", settings)
    run.evaluation("student", "prediction_layer", 1, 0.8)
    notes = " ".join(run_notes(read_run(run.run_dir)))
    assert "on generated sentences" in notes
    assert "The run has not finished" in notes
    assert "The control was not run." in notes
    # sqrt(0.8 * 0.2 / 872) = 0.0135
    assert "one standard error of the student's accuracy is 1.4" in notes


def test_terminal_table_fits_eighty_columns(distillation_run, make_run):
    empty = make_run("empty", {"recipe": "tinybert", "teacher": "x"})
    wide = make_run("wide", {"recipe": "tinybert", "teacher": "x"})
    metrics = {"perplexity": 9.5, "next_token_accuracy": 0.5, "f1": 0.5}
    wide.evaluation("student", "s", 1, 0.0, metrics=metrics)
    wide.latency(wide.export("student", "int8"), 5.0)
    for run in (distillation_run, empty, wide):
        text = printed(read_run(run.run_dir))
        lines = text.splitlines()
        assert max(map(len, lines)) <= 80
        assert not any("…" in line for line in lines)
        # No word is cut, and what has no number is left out.
        table = text.partition("\n- ")[0]
        assert ("speed-up" in table) == (run is distillation_run)
        assert ("median" in text) == (run is not empty)
    assert "LiteRT int8" in text


def test_terminal_report_takes_no_name_for_markup(make_run):
    run = make_run("run", {"recipe": "[red]", "data": {"task": "[/red]"}})
    assert printed(read_run(run.run_dir)).startswith("[red] on [/red]\n")
