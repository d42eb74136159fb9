"""Reports of runs on text: perplexities of students and of their teachers."""

import json

import pytest

from kdkit.reporting import (
    group_by_seed,
    markdown_tables,
    read_run,
    render_report,
)
from kdkit.reporting.summary import verdict

PARAMETERS = {"teacher": 14_000_000, "student": 3_000_000}


@pytest.fixture
def make_text_run(make_run):
    """A function of a name, perplexities and a teacher that makes a run."""

    def make(name, held_out, test=None, teacher=None, **config):
        kind = "student" if teacher else "teacher"
        settings = {"verb": "pretrain", "seed": 0, "teacher": teacher}
        settings["recipe"] = "lightpaff" if teacher else None
        run = make_run(name, settings | config)
        (run.run_dir / "config.json").write_text(json.dumps(settings | config))
        run.log("model", arm="decoder", parameters=PARAMETERS[kind])
        metrics = {"perplexity": held_out / 2, "word_perplexity": held_out}
        run.log(
            "evaluation",
            arm="decoder",
            stage="fine_tuning",
            epoch=1,
            split="held_out",
            examples=7,
            metrics=metrics,
            agreement=None,
        )
        best = {"stage": "fine_tuning", "epoch": 1, "metrics": metrics}
        run.log("run_finished", seconds=1.0, best={"decoder": best})
        for value in test or ():
            run.log(
                "measurement",
                corpus=["/data/test.txt"],
                sequence_length=8,
                stride=4,
                arm=None,
                metrics={"perplexity": 1.0, "word_perplexity": value},
            )
        return run

    return make


@pytest.fixture
def runs(make_text_run):
    """A teacher and students of two seeds, each begun by one of its seed."""
    teacher = make_text_run("teacher", 60.0, [70.0])
    students = [
        make_text_run(
            f"student_seed{seed}",
            80.0 + seed,
            [1.0, 90.0 + 2 * seed],  # the last one counts
            teacher=str(teacher.run_dir),
            seed=seed,
            model={"checkpoint": f"runs/begun_seed{seed}"},
        )
        for seed in (0, 1)
    ]
    return [read_run(run.run_dir) for run in (teacher, *students)]


def test_the_trained_model_is_a_student_if_it_has_a_teacher(runs):
    teacher, student, _ = runs
    assert (teacher.trained_arm, student.trained_arm) == ("teacher", "student")
    assert student.teacher_run.run_dir == teacher.run_dir
    text = markdown_tables([student])
    name = student.run_dir.name.partition("_seed")[0]
    assert f"### {name}: lightpaff on text" in text
    assert "| **teacher** | 30.0 | 60.0 | 14.00 |" in text
    assert "| **student** | 40.0 | 80.0 | 3.00 |" in text
    assert "control" not in text
    found = verdict(student)
    assert "The student reaches 40.0 perplexity, the teacher 30.0" in found


def test_runs_that_begin_with_the_same_run_are_of_one_group(make_text_run):
    runs = [
        make_text_run(f"pkd_seed{seed}", 80.0, seed=seed, model=model)
        for seed in (0, 1, 2)
        for model in [{"checkpoint": "runs/begun_seed0"}]
    ]
    groups = group_by_seed([read_run(run.run_dir) for run in runs])
    assert [len(group) for group in groups] == [3]


def test_runs_of_one_seed_with_other_beginnings_stay_apart(make_text_run):
    runs = [
        make_text_run(
            f"from_{start}", 80.0, model={"checkpoint": f"runs/x_seed{start}"}
        )
        for start in (0, 1)
    ]
    groups = group_by_seed([read_run(run.run_dir) for run in runs])
    assert [len(group) for group in groups] == [1, 1]


def test_a_teachers_perplexity_on_other_text_is_not_compared(make_text_run):
    teacher = make_text_run("teacher", 60.0, corpus={"files": ["wiki.txt"]})
    student = make_text_run(
        "student",
        80.0,
        teacher=str(teacher.run_dir),
        corpus={"files": ["ptb.txt"]},
    )
    records = read_run(student.run_dir)
    text = markdown_tables([records])
    assert "| **teacher** | not run | not run | 14.00 |" in text
    text = render_report(records)
    assert "The student reaches 40.0 perplexity at 1/5" in text
    assert "The teacher was measured on other text" in text


@pytest.mark.parametrize(
    ("hidden", "metric", "compared"),
    [
        ({"masking": {"share": 0.5}}, "masked_accuracy", False),
        ({"masking": {"share": 0.15}}, "masked_accuracy", True),
        ({"masking": {"share": 0.5}}, "next_token_accuracy", True),
        ({"spans": {"share": 0.3}}, "token_accuracy", False),
    ],
)
def test_a_teachers_perplexity_is_compared_where_the_same_tokens_are_hidden(
    make_text_run, hidden, metric, compared
):
    usual = {"masking": {"share": 0.15}} | {
        name: {"share": 0.5} for name in hidden if name == "spans"
    }
    corpora = {"teacher": usual | hidden, "student": usual}
    teacher = None
    for name, perplexity in (("teacher", 20.0), ("student", 12.0)):
        run = make_text_run(
            name, perplexity, teacher=teacher, corpus=corpora[name]
        )
        metrics = {"perplexity": perplexity, metric: 0.5}
        best = {"stage": "fine_tuning", "epoch": 2, "metrics": metrics}
        run.log(
            "evaluation",
            arm="encoder",
            split="held_out",
            **best,
        )
        run.log("run_finished", seconds=1.0, best={"encoder": best})
        teacher = str(run.run_dir)
    text = render_report(read_run(teacher))
    assert ("12.0 perplexity, the teacher 20.0" in text) == compared
    assert ("numbers are not comparable" in text) != compared
