import json
import statistics

import pytest

from kdkit.reporting import comparison_table, group_by_seed, markdown_tables
from kdkit.reporting.notes import provenance, run_notes
from kdkit.reporting.records import read_run


def cells(table, name):
    """The cells of one row of a Markdown table, by heading."""
    heads, _, *rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in table.splitlines()
    ]
    (row,) = [row for row in rows if row[0] == name]
    return dict(zip(heads, row, strict=True))


@pytest.fixture
def three_seeds(make_distillation):
    accuracies = {1: 0.8379, 2: 0.8429, 3: 0.8303}
    return [
        read_run(
            make_distillation(
                f"seed{seed}", seed=seed, student=accuracy, exported=seed < 3
            ).run_dir
        )
        for seed, accuracy in accuracies.items()
    ]


def test_commands_tell_no_place_outside_of_the_run(make_run):
    command = "kdkit distill pkd --data-dir ../shared/glue --teacher runs/t"
    run = make_run(
        "run", {"provenance": {"command": f"{command} --model /a/b"}}
    )
    (shown,) = provenance([read_run(run.run_dir)]).commands
    assert shown == (
        "kdkit distill pkd --data-dir glue --teacher runs/t --model b"
    )


def test_other_dev_splits_are_kept_apart(distillation_run):
    before = comparison_table([read_run(distillation_run.run_dir)]).markdown()
    for arm, accuracy in (("teacher", 0.71), ("student", 0.62)):
        distillation_run.evaluation(
            arm, "prediction_layer", 3, accuracy, split="dev_mismatched"
        )
    records = read_run(distillation_run.run_dir)
    assert comparison_table([records]).markdown() == before
    assert (
        "On dev_mismatched, which nothing was chosen on: teacher 71.0 % "
        "accuracy, student 62.0 % accuracy." in run_notes(records)
    )


def test_seeds_give_mean_and_sample_deviation(three_seeds):
    accuracies = [83.79, 84.29, 83.03]
    mean = statistics.fmean(accuracies)
    deviation = statistics.stdev(accuracies)
    student = cells(comparison_table(three_seeds).markdown(), "**student**")
    assert student["accuracy, %"] == f"{mean:.1f} ± {deviation:.1f}"
    assert student["parameters, M"] == "14.35"
    assert student["size, MB"] == "–"


def test_rows_of_some_runs_say_how_many(three_seeds):
    table = comparison_table(three_seeds).markdown()
    int8 = cells(table, "student, LiteRT int8 (2 runs)")
    assert int8["median, ms"] == "5.93"
    assert int8["speed-up"] == "10×"
    assert "LiteRT file" not in table


def test_shared_teacher_counts_once(three_seeds):
    teacher = cells(comparison_table(three_seeds).markdown(), "**teacher**")
    assert teacher["accuracy, %"] == "88.8"
    assert "±" not in "".join(teacher.values())


@pytest.mark.parametrize(("precision", "groups"), [("fp32", 1), ("int8", 2)])
def test_outputs_that_were_kept_exactly_make_no_difference(
    make_distillation, precision, groups
):
    runs = [make_distillation(f"seed{seed}", seed=seed) for seed in (1, 2)]
    config = runs[1].run_dir / "config.json"
    changed = json.loads(config.read_text())
    changed["cache"] = {"directory": "there", "precision": precision}
    changed["more"] = None
    config.write_text(json.dumps(changed))
    records = [read_run(run.run_dir) for run in runs]
    assert len(group_by_seed(records)) == groups


def test_teachers_that_differ_in_seed_make_one_group(
    make_teacher, make_distillation
):
    runs = []
    for seed in (1, 2):
        teacher = make_teacher(f"teacher{seed}", seed=seed)
        run = make_distillation(
            f"run{seed}", seed=seed, teacher=teacher.run_dir
        )
        runs.append(read_run(run.run_dir))
    assert group_by_seed(runs) == [runs]
    teacher = cells(comparison_table(runs).markdown(), "**teacher**")
    assert teacher["accuracy, %"] == "88.8 ± 0.0"


def test_same_teacher_trained_twice_counts_once(make_run):
    settings = {"verb": "train-teacher", "seed": 0}
    runs = []
    for seed in (1, 2):
        run = make_run(f"run{seed}", {"seed": seed, "teacher": settings})
        teacher = make_run(f"run{seed}/teacher_run", settings)
        teacher.evaluation("teacher", "fine_tuning", 1, 0.9)
        runs.append(read_run(run.run_dir))
    teacher = cells(comparison_table(runs).markdown(), "**teacher**")
    assert teacher["accuracy, %"] == "90.0"


def test_runs_that_differ_make_tables_of_their_own(make_distillation):
    runs = [
        read_run(make_distillation("a", task="sst2").run_dir),
        read_run(make_distillation("b", task="mrpc").run_dir),
    ]
    assert group_by_seed(runs) == [runs[:1], runs[1:]]
    text = markdown_tables(runs)
    assert "### a: tinybert on sst2\n\n| model |" in text
    assert "### b: tinybert on mrpc\n\n| model |" in text


def test_provenance_says_how_runs_were_made(three_seeds):
    made = provenance(three_seeds)
    facts = dict(made.facts)
    assert facts["Seeds"] == "1, 2, 3 (3 runs)"
    assert facts["Training time"] == ", ".join(["1 h 31 min"] * 3)  # 5480 s
    assert facts["Teacher's training time"] == "16 min"  # 930 s
    assert facts["Commit"] == "0c1d2e3"
    assert facts["Machine"] == "2 cores, CPU"
    assert made.commands == (
        "kdkit train-teacher --task sst2 --seed 1",
        *(f"kdkit distill tinybert --task sst2 --seed {n}" for n in (1, 2, 3)),
    )


def test_results_hold_no_markup_of_names(make_run):
    run = make_run("run", {"recipe": "a|b", "data": {"task": "<script>"}})
    text = markdown_tables([read_run(run.run_dir)])
    assert "### run: a\\|b on &lt;script&gt;" in text
