"""Several runs in one table: seeds, teachers that are shared, text."""

import json
import statistics

import pytest
from kit.adapter import command
from kit.reports import config, own_table, page, svg_texts, table

from kdkit.reporting import (
    group_by_seed,
    markdown_tables,
    plot_learning_curves,
    plot_trade_off,
    read_run,
    verdict,
)

STEP = config("teacher").model_dump(mode="json")
ACCURACIES = {1: 0.8379, 2: 0.8429, 3: 0.8303}


@pytest.fixture
def three_seeds(make_distillation):
    """Runs of which the last one has no files."""
    return [
        make_distillation(
            f"tiny/seed_{seed}",
            seed=seed,
            student=accuracy,
            exported=seed < 3,
        ).records
        for seed, accuracy in ACCURACIES.items()
    ]


def test_seeds_give_mean_and_sample_deviation(three_seeds):
    found = table(*three_seeds)
    percents = [100 * accuracy for accuracy in ACCURACIES.values()]
    mean, deviation = statistics.fmean(percents), statistics.stdev(percents)
    assert found["student"]["accuracy"] == f"{mean:.1f} ± {deviation:.1f}"
    assert found["student"]["parameters"] == "14.35"
    int8 = found["student, LiteRT int8 (2 runs)"]
    assert (int8["median"], int8["speed-up"]) == ("5.93", "10×")
    assert not any("LiteRT file" in name for name in found)
    # The teacher that they share counts once.
    assert found["teacher"]["accuracy"] == "88.8"


def test_how_runs_were_made_is_below_them(three_seeds, tmp_path):
    places = [str(run.run_dir) for run in three_seeds]
    curves = tmp_path / "curves.svg"
    told = command(
        ["report", *places, "--markdown", tmp_path / "page.md"]
        + ["--curves", curves]
    )
    assert told.status == 0
    text = (tmp_path / "page.md").read_text()
    assert "### tiny: tinybert on sst2, 3 runs: mean" in text
    assert {"tiny, seed 1", "tiny, seed 2"} <= set(
        svg_texts(curves.read_text())
    )
    assert (three_seeds[0].run_dir / "comparison.html").is_file()


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


def changed(run, **fields):
    config = run.run_dir / "config.json"
    values = json.loads(config.read_text()) | fields
    config.write_text(json.dumps(values))
    return run.records


@pytest.mark.parametrize(
    ("cache", "is_same"),
    [("fp32", True), ("int8", False)],
)
def test_a_cache_of_exact_outputs_makes_no_difference(
    cache, is_same, make_distillation
):
    runs = [make_distillation(f"seed{seed}", seed=seed) for seed in (1, 2)]
    cached = {"directory": "cache", "precision": cache}
    records = [runs[0].records, changed(runs[1], cache=cached)]
    assert (len(group_by_seed(records)) == 1) == is_same


def test_teachers_that_differ_in_seed_make_one_group(
    make_teacher, make_distillation
):
    runs = [
        make_distillation(
            f"run{seed}",
            seed=seed,
            teacher=make_teacher(f"teacher{seed}", seed=seed).run_dir,
        ).records
        for seed in (1, 2)
    ]
    assert group_by_seed(runs) == [runs]
    assert table(*runs)["teacher"]["accuracy"] == "88.8 ± 0.0"


def test_the_same_teacher_trained_twice_counts_once(make_run):
    taught = {"teacher": ["run:teacher"], "steps": {"teacher": STEP}}
    runs = []
    for seed in (1, 2):
        run = make_run(f"run{seed}", training={"seed": seed}, **taught)
        teacher = make_run(f"run{seed}/teacher_run", "teacher")
        teacher.evaluation("teacher", "fine_tuning", 1, 0.9)
        runs.append(run.records)
    assert table(*runs)["teacher"]["accuracy"] == "90.0"


def test_runs_that_differ_make_tables_of_their_own(make_distillation):
    runs = [
        make_distillation(name, task=task).records
        for name, task in (("a", "sst2"), ("b", "mrpc"))
    ]
    assert group_by_seed(runs) == [runs[:1], runs[1:]]
    text = markdown_tables(runs)
    for title in ("### a: tinybert on sst2", "### b: tinybert on mrpc"):
        assert f"{title}\n\n| model |" in text


@pytest.mark.parametrize(("order", "groups"), [("ab", 1), ("ba", 2)])
def test_another_order_of_stages_is_another_run(order, groups, make_run):
    ((_, stage),) = config().model_dump(mode="json")["stages"].items()
    stages = {"a": stage, "b": {**stage, "learning_rate": 1.0}}
    runs = [
        make_run(
            name,
            stages={one: stages[one] for one in names},
            training={"seed": seed},
        ).records
        for seed, (name, names) in enumerate({"x": "ab", "y": order}.items())
    ]
    assert len(group_by_seed(runs)) == groups


def test_results_hold_no_markup_of_names(make_run):
    run = make_run("run", recipe="a|b", data=own_table("<script>"))
    assert "### run: a\\|b on &lt;script&gt;" in markdown_tables([run.records])


@pytest.mark.parametrize(
    ("show", "tasks", "message"),
    [
        (plot_learning_curves, ("sst2", "rte"), "several tasks: rte, sst2"),
        (
            lambda runs: plot_trade_off([[run] for run in runs]),
            ("sst2", "rte"),
            "several tasks: rte, sst2",
        ),
        (group_by_seed, ("rte", "rte"), "the same settings and seed"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    show, tasks, message, make_run
):
    runs = []
    for number, task in enumerate(tasks):
        run = make_run(str(number), data={"task": task})
        run.epoch("student", "fine_tuning", 1, accuracy=0.8)
        run.evaluation("student", "fine_tuning", 1, 0.7)
        runs.append(run.records)
    with pytest.raises(ValueError, match=message):
        show(runs)


@pytest.fixture
def make_text_run(make_run):
    """A function of a name, a perplexity and a teacher that makes a run."""

    def make(name, held_out, teacher=None, arm="decoder", more=None, **fields):
        if teacher:
            fields["teacher"] = teacher
        run = make_run(name, "taught" if teacher else "text", **fields)
        run.log("model", arm=arm, parameters=3_000_000 * (1 if teacher else 5))
        metrics = {"perplexity": held_out / 2, "word_perplexity": held_out}
        metrics |= more or {}
        best = {"stage": "fine_tuning", "epoch": 1, "metrics": metrics}
        run.log(
            "evaluation", arm=arm, split="held_out", examples=7,
            agreement=None, **best,
        )  # fmt: skip
        run.log("run_finished", seconds=1.0, best={arm: best})
        return run

    return make


def test_the_model_trained_on_text_is_a_student_if_it_has_a_teacher(
    make_text_run,
):
    teacher = make_text_run("teacher", 60.0)
    student = make_text_run("student", 80.0, str(teacher.run_dir)).records
    assert student.teacher_run.run_dir == teacher.run_dir
    shown = {name: [*row.values()][:3] for name, row in table(student).items()}
    assert shown["teacher"] == ["30.0", "60.0", "15.00"]
    assert shown["student"] == ["40.0", "80.0", "3.00"]
    assert "control" not in shown
    found = verdict(student)
    assert "The student reaches 40.0 perplexity, the teacher 30.0" in found


@pytest.mark.parametrize(
    ("beginnings", "seeds", "groups"),
    [
        (["runs/begun_seed0"] * 3, [0, 1, 2], [3]),
        (["runs/begun_seed0", "runs/begun_seed1"], [0, 1], [2]),
        # With one seed, the difference is the beginning.
        (["runs/begun_seed0", "runs/begun_seed1"], [0, 0], [1, 1]),
    ],
)
def test_runs_that_begin_alike_are_of_one_group(
    beginnings, seeds, groups, make_text_run
):
    runs = [
        make_text_run(
            f"run{number}",
            80.0,
            training={"seed": seed},
            student={"checkpoint": begun},
        ).records
        for number, (begun, seed) in enumerate(
            zip(beginnings, seeds, strict=True)
        )
    ]
    assert [len(group) for group in group_by_seed(runs)] == groups


def text(file):
    return {"kind": "corpus", "files": [file]}


def masked(share):
    return {**text("a.txt"), "masking": {"share": share}}


def hidden(share):
    return {**text("a.txt"), "kind": "sentences", "spans": {"share": share}}


@pytest.mark.parametrize(
    ("corpora", "metric", "compared"),
    [
        ((text("a.txt"), text("b.txt")), "bleu", False),
        ((masked(0.5), masked(0.15)), "masked_accuracy", False),
        ((masked(0.15), masked(0.15)), "masked_accuracy", True),
        ((masked(0.5), masked(0.15)), "next_token_accuracy", True),
        ((hidden(0.3), hidden(0.5)), "token_accuracy", False),
    ],
)
def test_perplexities_are_compared_where_the_same_tokens_are_predicted(
    corpora, metric, compared, make_text_run
):
    teacher = None
    for name, held_out, corpus in zip(
        ("teacher", "student"), (40.0, 24.0), corpora, strict=True
    ):
        run = make_text_run(
            name, held_out, teacher, "encoder", {metric: 0.5}, corpus=corpus
        )
        teacher = str(run.run_dir)
    records = read_run(teacher)
    assert ("12.0 perplexity, the teacher 20.0" in page(records)) == compared
    shown = table(records)["teacher"]["perplexity"]
    assert shown == ("20.0" if compared else "not run")
