"""Verdicts and notes: what a run's numbers mean, in words."""

import io

from kit.reports import own_table, page
from rich.console import Console

from kdkit.reporting import print_report, verdict

CHANCE = "is right in 50.9 %, the most frequent answer alone in 50.9 %"


def printed(records):
    output = io.StringIO()
    print_report(records, Console(file=output, width=80, highlight=False))
    return " ".join(output.getvalue().split())


def test_verdict_is_made_of_the_numbers(distillation_run):
    assert verdict(distillation_run.records) == (
        "The student keeps 94.4 % of the teacher's accuracy (83.8 % of "
        "88.8 %), at 63 % of the parameters; by distillation alone its fp32 "
        "file (83.8 % accuracy) is 4.1× faster and 1.6× smaller than the "
        "teacher's fp32 file; the student's int8 file (83.7 % accuracy) is "
        "10× faster and 6.3× smaller than the teacher's fp32 file; "
        "the same student without a teacher: 78.3 %, 5.5 points less."
    )


def test_what_quantisation_gained_is_said_of_the_teacher(distillation_run):
    distillation_run.export("teacher", "int8", 0.88, size_bytes=22_800_000)
    gain = "alone the teacher's int8 file (88.0 % accuracy) is 4.0× smaller"
    assert gain in verdict(distillation_run.records)


def test_differences_within_noise_are_called_that(make_distillation):
    run, other = (
        make_distillation(
            name, student=accuracy, control=0.88, teacher=teacher
        ).records
        for name, accuracy, teacher in (("a", 0.8868, "x"), ("b", 0.7, "y"))
    )
    text = verdict(run)
    assert "(88.7 % of 88.8 %, within two standard errors)" in text
    assert "within two standard errors: no difference is shown" in text
    text = "b reaches 70.0 % accuracy, a 88.7 %: 18.7 points less."
    assert text in page(run, other)


def test_other_dev_splits_are_kept_apart(distillation_run):
    before = verdict(distillation_run.records)
    for arm, accuracy in (("teacher", 0.71), ("student", 0.62)):
        distillation_run.evaluation(
            arm, "prediction_layer", 3, accuracy, split="dev_mismatched"
        )
    assert verdict(distillation_run.records) == before
    for note in ("teacher 71.0 % accuracy.", "student 62.0 % accuracy."):
        assert f"On dev_mismatched: {note}" in page(distillation_run.records)


def test_a_collapsed_student_has_no_gains(make_distillation):
    run = make_distillation("run", student=0.509)
    run.evaluation("student", "prediction_layer", 3, 0.509, collapsed=CHANCE)
    text = verdict(run.records)
    assert f"The student has collapsed (50.9 % accuracy): it {CHANCE}" in text
    assert "keeps" not in text
    assert "faster" not in text
    for shown in (page(run.records), printed(run.records)):
        assert "The student has collapsed" in shown


def test_what_means_nothing_has_no_gains(make_distillation):
    run = make_distillation("file")
    run.export("student", "int8", 0.509, collapsed=CHANCE)
    assert "the student's int8 file has collapsed" in verdict(run.records)
    run = make_distillation("teacher_fell")
    run.evaluation("teacher", None, None, 0.509, collapsed=CHANCE)
    text = verdict(run.records)
    assert text.startswith("The teacher has collapsed (50.9 % accuracy)")
    assert "keeps" not in text
    assert "faster" not in text


def test_terminal_report_takes_no_name_for_markup(make_run):
    run = make_run("run", recipe="[red]", data=own_table("[/red]"))
    assert printed(run.records).startswith("[red] on [/red] ")


def test_a_page_has_the_runs_provenance(distillation_run):
    text = page(distillation_run.records)
    for fact in (
        "Training time 1 h 31 min",  # 5480 s
        "16 min",  # of the teacher, 930 s
        "0c1d2e3",
        "2 cores, CPU",
        "kdkit train-teacher --task sst2 --seed 1 kdkit distill tinybert",
    ):
        assert fact in text, fact


def test_commands_tell_no_place_outside_of_the_run(make_run):
    made_by = "kdkit distill pkd --data-dir ../shared/glue --model /a/b"
    run = make_run("run", provenance={"command": made_by})
    shown = "kdkit distill pkd --data-dir glue --model b"
    assert shown in page(run.records)
