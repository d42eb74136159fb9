"""Reports of runs on text: perplexities of students and of their teachers."""

import json

import pytest

from kdkit.reporting import (
    group_by_seed,
    markdown_tables,
    print_report,
    read_run,
    render_report,
)
from kdkit.reporting.notes import run_notes, what_is_hidden
from kdkit.reporting.summary import model_title, run_title, verdict

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


@pytest.mark.parametrize(
    ("languages", "teacher", "title"),
    [
        ([], None, "training on pairs"),
        (["en", "de"], None, "training on en to de pairs"),
        (["en", "de"], "runs/t", "lightpaff on en to de pairs"),
    ],
)
def test_a_run_on_pairs_is_called_so(make_text_run, languages, teacher, title):
    corpus = {"files": ["a", "b"], "columns": [], "languages": languages}
    run = make_text_run("run", 60.0, teacher=teacher, corpus=corpus)
    assert run_title(read_run(run.run_dir)) == title


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


@pytest.mark.parametrize(
    ("hidden", "words"),
    [
        (
            {
                "masking": {
                    "share": 0.15,
                    "mask_share": 0.8,
                    "random_share": 0.1,
                }
            },
            "15 % of the tokens masked",
        ),
        (
            {
                "masking": {
                    "share": 0.4,
                    "mask_share": 1.0,
                    "random_share": 0.0,
                    "whole_words": True,
                }
            },
            "40 % of the tokens masked by whole words (100 % of them as masks, "
            "0 % as random tokens)",
        ),
        ({"spans": {"share": 0.5}}, "spans of 50 % of a sentence hidden"),
        ({"masking": {}}, ""),
        ({}, ""),
    ],
)
def test_what_was_hidden_is_said_in_words(hidden, words):
    assert what_is_hidden(**hidden) == words


def test_what_was_measured_later_is_a_note(runs, capsys):
    print_report(runs[1])
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "kdkit evaluate on test.txt by rows of 8 tokens, 4 new: student 1.000 "
        "perplexity, 90.0 word perplexity."
    ) in said


def test_a_model_without_a_teacher_is_called_the_model(make_text_run):
    run = make_text_run("alone", 80.0, test=[90.0])
    records = read_run(run.run_dir)
    text = markdown_tables([records])
    assert "| **model** | 40.0 |" in text
    assert "**teacher**" not in text
    text = render_report(records)
    assert "The model reaches 40.0 perplexity on 7 rows held out" in text
    assert "4 new: model 1.000 perplexity" in text


def test_a_model_that_goes_on_from_a_seed_of_another_has_its_sizes(make_run):
    settings = {"verb": "pretrain", "seed": 0, "teacher": None, "recipe": None}
    for sizes, title in (
        ({"num_layers": 3}, "3×96"),
        ({"encoder_num_layers": 3, "decoder_num_layers": 2}, "3+2×96"),
    ):
        run = make_run(f"arm_of_{len(sizes)}/seed_0", settings)
        run.log("model", arm="decoder", name="seed_0", hidden_dim=96, **sizes)
        assert model_title(read_run(run.run_dir)) == title
    run.log("model", arm="decoder", name="minilm", hidden_dim=96)
    assert model_title(read_run(run.run_dir)) == "minilm"


def test_what_was_written_stands_with_its_signature(make_text_run):
    run = make_text_run("run", 60.0)
    for bleu, of_file in (31.25, {}), (30.75, {"file": "mass-int8.tflite"}):
        run.log(
            "measurement",
            corpus=None,
            pairs=["/data/test.en", "/data/test.de"],
            languages=["en", "de"],
            sequence_length=64,
            beam_size=4,
            length_penalty=1.0,
            signatures={"bleu": "nrefs:1|tok:13a"},
            arm="decoder",
            metrics={"bleu": bleu, "perplexity": 5.0},
            **of_file,
        )
    first, second = run_notes(read_run(run.run_dir))
    where = (
        "test.en and test.de (en to de, 64 tokens at most, 4 beams, length "
        "penalty 1.0; BLEU nrefs:1|tok:13a)"
    )
    assert f"{where}: model 31.2 BLEU" in first
    assert f"{where}, mass-int8.tflite: model 30.8 BLEU" in second
