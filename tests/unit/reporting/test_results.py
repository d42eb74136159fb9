"""The table of runs: each number in its place, seeds, shared teachers."""

import json
import statistics

import pytest
from kit.adapter import command
from kit.reports import config, page, table

from kdkit.reporting import (
    comparison_table,
    group_by_seed,
    plot_metric,
    plot_trade_off,
    verdict,
)
from kdkit.reporting.results import exported_files
from kdkit.reporting.words import differences

STEP = config("teacher").model_dump(mode="json")
ACCURACIES = {1: 0.8379, 2: 0.8429, 3: 0.8303}
MATTHEWS = "matthews_correlation"


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
        "agrees with teacher": "88.5",
        "KL divergence": "0.210",
        "parameters": "14.35",
        **dict.fromkeys(("size", "median", "p95", "speed-up"), "–"),
        "agrees with Keras": "–",
        "difference from Keras": "–",
    }
    assert found["student, LiteRT int8"] == {
        "accuracy": "83.7",
        "of teacher": "94.3",
        "agrees with teacher": "–",
        "KL divergence": "–",
        "parameters": "14.35",
        "size": "14.50",
        "median": "5.93",
        "p95": "6.46",  # 1.09 * 5.93
        "speed-up": "10×",  # 61.3 / 5.93
        "agrees with Keras": "99.9",
        "difference from Keras": "2.4e-02",
    }
    # Of its best epoch, the fourth of six.
    assert found["control"]["accuracy"] == "78.3"
    assert found["control"]["agrees with teacher"] == "80.1"


def test_what_was_not_run_is_empty(make_run):
    run = make_run("run", teacher=["bert_base"])
    run.model("student")
    run.evaluation("student", "prediction_layer", 1, 0.8)
    run.export("student", "fp16")
    found = table(run.records)
    assert set(found["control"].values()) == {"–"}
    assert "of teacher" not in found["student"]
    assert found["student, LiteRT fp16"]["size"] == "28.90"
    assert found["student, LiteRT fp16"]["accuracy"] == "–"
    assert "median" not in found["student, LiteRT fp16"]


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
        ({MATTHEWS: 0.0}, {MATTHEWS: 0.2}, {"of teacher": ""}),
        ({MATTHEWS: 0.2}, {MATTHEWS: 0.3}, {"of teacher": "150.0"}),
        ({MATTHEWS: 0.2}, {MATTHEWS: 0.31}, {"of teacher": ""}),
        ({MATTHEWS: 0.2}, {MATTHEWS: 0.0}, {"of teacher": "0.0"}),
        ({MATTHEWS: 0.2}, {MATTHEWS: -0.1}, {"of teacher": ""}),
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
    assert {name: found.get(name, "").strip("–") for name in shown} == shown
    has_share = bool(shown.get("of teacher"))
    assert ("keeps" in verdict(run.records)) == has_share


def test_the_last_evaluation_of_an_unfinished_run_counts(make_run):
    run = make_run("run")
    run.evaluation("student", "intermediate_layer", 1, 0.9)
    run.evaluation("student", "prediction_layer", 1, 0.6)
    run.evaluation("student", "prediction_layer", 2, 0.7)
    run.evaluation("student", "prediction_layer", 2, 0.1, split="train")
    assert table(run.records)["student"]["accuracy"] == "70.0"


def test_speed_up_needs_the_same_setting(make_run, teacher_run):
    run = make_run("run", teacher=[str(teacher_run.run_dir)])
    file = run.export("student", "int8")
    run.latency(file, 6.13)
    run.latency(file, 3.0, threads=2)
    found = table(run.records)
    assert found["student, LiteRT int8, 1 thread"]["speed-up"] == "10×"
    assert found["student, LiteRT int8, 2 threads"]["speed-up"] == "–"
    assert "Latency: batch 1, length 128." in page(run.records)


def test_latencies_of_two_machines_are_not_compared(make_run, teacher_run):
    run = make_run("run", teacher=[str(teacher_run.run_dir)])
    teacher, file = run.export("teacher", "fp32"), run.export("student", "int8")
    run.latency(teacher, 60.0, processor="laptop")
    for processor, median in (("laptop", 6.0), ("server", 1.0)):
        run.latency(file, median, processor=processor)
    found = table(run.records)
    assert found["student, LiteRT int8, laptop"]["speed-up"] == "10×"
    assert found["student, LiteRT int8, server"]["speed-up"] == "–"
    assert "int8 file is 10× faster" in verdict(run.records)


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
    assert found["size"] == "7.00"
    assert "median" not in found


def test_files_with_other_context_lengths_are_not_compared(make_run):
    run = make_run("run")
    file = run.export("student", "int8")
    for room, median in (((64, 64), 2.0), ((64, 32), 1.0)):
        run.latency(file, median, sequence_length=25, room=room)
    found = {name: row["median"] for name, row in table(run.records).items()}
    name = "student, LiteRT int8, length 25 (context length 64"
    assert found[f"{name} and 32)"] == "1.00"
    assert found[f"{name})"] == "2.00"


def test_files_of_one_precision_are_told_apart(make_run):
    run = make_run("run")
    run.export("student", "fp32", file="a.tflite", sequence_length=64)
    run.export("student", "fp32", file="b.tflite", sequence_length=None)
    run.export("student", "fp16", file="c.tflite")
    run.export("student", "fp16", file="d.tflite")
    run.export("student", "int8", file="exports/e.tflite")
    run.export("student", "int8", file="exports/student-bundle/e.tflite")
    names = [name.partition("LiteRT ")[2] for name in table(run.records)]
    assert names[3:] == [
        "fp32, b.tflite",
        "fp32, a.tflite",
        "fp16, c.tflite",
        "fp16, d.tflite",
        "int8, e.tflite",
        "int8, student-bundle/e.tflite",
    ]


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
    # The teacher that they share counts once.
    assert found["teacher"]["accuracy"] == "88.8"


def test_how_runs_were_made_is_below_them(three_seeds, tmp_path):
    places = [str(run.run_dir) for run in three_seeds]
    told = command(["report", *places, "--markdown", tmp_path / "page.md"])
    assert told.status == 0
    assert " ± " in (tmp_path / "page.md").read_text()
    assert (three_seeds[0].run_dir / "comparison.html").is_file()


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
    assert table(*runs)["teacher"]["accuracy"] == "88.8"


def test_the_same_teacher_trained_twice_counts_once(make_run):
    taught = {"teacher": ["run:teacher"], "steps": {"teacher": STEP}}
    runs = []
    for seed in (1, 2):
        run = make_run(f"run{seed}", training={"seed": seed}, **taught)
        teacher = make_run(f"run{seed}/teacher_run", "teacher")
        teacher.evaluation("teacher", "fine_tuning", 1, 0.9)
        runs.append(run.records)
    assert table(*runs)["teacher"]["accuracy"] == "90.0"


def test_runs_that_differ_have_rows_of_their_own(make_distillation):
    runs = [
        make_distillation(f"{name}/seed_1", task=task).records
        for name, task in (("a|b", "sst2"), ("c", "mrpc"))
    ]
    assert group_by_seed(runs) == [runs[:1], runs[1:]]
    found = comparison_table(runs).markdown()
    for row in ("a\\|b, student", "c, control", "teacher, teacher"):
        assert found.count(f"| {row} |") == 1, row


def test_teachers_of_one_name_are_kept_apart(make_run):
    taught = {"teacher": ["run:teacher"], "steps": {"teacher": STEP}}
    runs = []
    for name, accuracy in (("a", 0.9), ("b", 0.8)):
        run = make_run(name, student={"checkpoint": name}, **taught)
        start = {"checkpoint": name}
        teacher = make_run(f"{name}/teacher_run", "teacher", student=start)
        teacher.evaluation("teacher", "fine_tuning", 1, accuracy)
        runs.append(run.records)
    found = table(*runs)
    for name, accuracy in (("a", "90.0"), ("b", "80.0")):
        row = found[f"{name}/teacher_run, teacher"]
        assert row["accuracy"] == accuracy


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


@pytest.mark.parametrize("show", [plot_metric, plot_trade_off])
def test_one_picture_shows_one_task(show, make_run):
    runs = [make_run(task, data={"task": task}) for task in ("sst2", "rte")]
    with pytest.raises(ValueError, match="several tasks: rte, sst2"):
        show([run.records for run in runs])


def test_a_teacher_measured_on_two_tasks_has_two_rows(
    make_distillation, teacher_run
):
    runs = [
        make_distillation(name, task=task)
        for name, task in (("a", "sst2"), ("b", "rte"))
    ]
    runs[1].evaluation("teacher", None, None, 0.66)
    found = table(*(run.records for run in runs))
    accuracies = {
        row["accuracy"]
        for name, row in found.items()
        if name in ("teacher, teacher", "b, teacher")
    }
    assert accuracies == {"88.8", "66.0"}


@pytest.fixture
def two_runs(make_run):
    """Two runs with one teacher and other students."""
    runs = [make_run(name, student={"checkpoint": name}) for name in "ab"]
    for number, run in enumerate(runs):
        run.evaluation("teacher", None, None, 0.9)
        run.evaluation("student", "s", 1, 0.8 + number / 100)
    return runs


def test_a_teacher_that_two_runs_have_timed_has_a_row_for_each(two_runs):
    for run, time in zip(two_runs, (60.0, 70.0), strict=True):
        run.latency(run.export("teacher", "fp32"), time)
    found = comparison_table([run.records for run in two_runs])
    cells = {cell for row in found.rows for cell in row.cells}
    assert {"60.0", "70.0"} <= cells


def test_numbers_on_other_rows_are_not_compared(two_runs):
    assert differences([run.records for run in two_runs])
    for run, rows in zip(two_runs, ("1" * 16, "2" * 16), strict=True):
        run.log("inputs", digests={"dev": rows})
        run.export("student", "int4", 0.5, data_digest="1" * 16)
    assert not differences([run.records for run in two_runs])
    for run, metrics in zip(two_runs, ({"accuracy": 0.5}, {}), strict=True):
        ((file, _),) = exported_files(run.records, "student")
        assert file.metrics == metrics


def test_a_file_that_one_seed_has_timed_is_one_row(make_distillation):
    runs = [make_distillation(f"x/seed_{seed}", seed=seed) for seed in (1, 2)]
    runs[1].export("student", "int8", 0.8)  # a new file, not timed
    int8 = table(*(run.records for run in runs))["student, LiteRT int8"]
    assert int8["accuracy"] == "81.8 ± 2.6"  # of 0.8368 and 0.8
    assert int8["median"] == "5.93 (1 run)"


def test_another_file_of_the_teacher_may_be_the_reference(
    distillation_run, teacher_run
):
    teacher_run.export("teacher", "fp32", file="a.tflite")  # not timed
    int8 = table(distillation_run.records)["student, LiteRT int8"]
    assert int8["speed-up"] == "10×"


def test_the_best_epoch_is_known_without_its_line(distillation_run):
    path = distillation_run.run_dir / "metrics.jsonl"
    lines = path.read_text().splitlines()
    kept = [line for line in lines if '"accuracy": 0.8379' not in line[:300]]
    finished = [line for line in lines if "run_finished" in line]
    path.write_text("\n".join([*kept, *finished]))
    assert table(distillation_run.records)["student"]["accuracy"] == "83.8"


def test_a_run_that_is_there_twice_is_not_averaged(make_run):
    runs = [make_run(str(number)).records for number in range(2)]
    assert group_by_seed(runs) == [runs[:1], runs[1:]]


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
    records = run.records
    assert ("12.0 perplexity, the teacher 20.0" in page(records)) == compared
    shown = table(records)["teacher"]["perplexity"]
    assert shown == ("20.0" if compared else "–")
