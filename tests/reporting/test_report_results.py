import json
import re
import statistics

import pytest

from kdkit.errors import UsageError
from kdkit.reporting import comparison_table
from kdkit.reporting.records import read_run
from kdkit.reporting.results import (
    END_MARKER,
    START_MARKER,
    group_by_seed,
    markdown_results,
    replace_results,
)
from kdkit.runs.settings import FREE


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


def test_one_run_has_no_deviation(distillation_run):
    records = read_run(distillation_run.run_dir)
    text = markdown_results([records])
    assert "±" not in text
    assert "(1 run)" in text
    student = cells(comparison_table([records]).markdown(), "**student**")
    assert student["accuracy, %"] == "83.8"


def test_commands_tell_no_place_outside_of_the_run(make_run):
    command = "kdkit distill pkd --data-dir ../shared/glue --teacher runs/t"
    run = make_run(
        "run", {"provenance": {"command": f"{command} --model /a/b"}}
    )
    text = markdown_results([read_run(run.run_dir)])
    assert (
        "kdkit distill pkd --data-dir glue --teacher runs/t --model b" in text
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
        "accuracy, student 62.0 % accuracy." in markdown_results([records])
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


def test_cells_of_some_runs_say_how_many(make_distillation):
    runs = [make_distillation(f"seed{seed}", seed=seed) for seed in (1, 2)]
    runs[1].export("student", "int8", 0.83)
    table = comparison_table([read_run(run.run_dir) for run in runs]).markdown()
    int8 = cells(table, "student, LiteRT int8")
    assert int8["median, ms"] == "5.93 (1 run)"
    assert "±" in int8["accuracy, %"]


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


def test_runs_that_differ_make_sections_of_their_own(make_distillation):
    runs = [
        read_run(make_distillation("a", task="sst2").run_dir),
        read_run(make_distillation("b", task="mrpc").run_dir),
    ]
    assert group_by_seed(runs) == [runs[:1], runs[1:]]
    text = markdown_results(runs, heading_level=2)
    assert "## a: tinybert on sst2, tinybert_4_layer_en_uncased" in text
    assert "## b: tinybert on mrpc, tinybert_4_layer_en_uncased" in text


def test_how_often_a_run_was_saved_does_not_part_it(make_run):
    saved = {"checkpoint_minutes": 10.0}
    assert set(saved) == set(FREE)
    runs = [
        make_run(f"run_seed{seed}", {"seed": seed, "general": more, **more})
        for seed, more in enumerate(({}, saved))
    ]
    records = [read_run(run.run_dir) for run in runs]
    assert group_by_seed(records) == [records]


def test_same_run_twice_is_refused(make_distillation):
    runs = [read_run(make_distillation(name, seed=7).run_dir) for name in "ab"]
    with pytest.raises(UsageError, match="seed 7. Remove one of them"):
        markdown_results(runs)


def test_no_runs_are_refused():
    with pytest.raises(UsageError, match="at least one run"):
        markdown_results([])


def test_results_say_how_they_were_made(three_seeds):
    text = markdown_results(three_seeds)
    assert "- Seeds: 1, 2, 3 (3 runs)\n" in text
    assert (
        "- Training time: 1 h 31 min, 1 h 31 min, 1 h 31 min\n" in text
    )  # 5480 s
    assert "- Teacher's training time: 16 min\n" in text  # 930 s
    assert "- Commit: 0c1d2e3\n" in text
    assert "- Machine: 2 cores, CPU\n" in text
    assert text.endswith(
        "```sh\n"
        "kdkit train-teacher --task sst2 --seed 1\n"
        "kdkit distill tinybert --task sst2 --seed 1\n"
        "kdkit distill tinybert --task sst2 --seed 2\n"
        "kdkit distill tinybert --task sst2 --seed 3\n"
        "```\n"
    )


def test_results_tell_whose_notes_differ(make_distillation):
    accuracies = {1: 0.8, 2: 0.8, 3: 0.9}
    runs = [
        read_run(
            make_distillation(f"seed{s}", seed=s, student=accuracy).run_dir
        )
        for s, accuracy in accuracies.items()
    ]
    text = markdown_results(runs)
    assert text.count("- Latency: 1 thread, batch 1, length 128.") == 1
    assert "- Seeds 1, 2: Measured on the 872 examples" in text
    assert "- Seed 3: Measured on the 872 examples" in text


def test_results_hold_no_markup_of_names(make_run):
    run = make_run("run", {"recipe": "a|b", "data": {"task": "<script>"}})
    text = markdown_results([read_run(run.run_dir)])
    assert "### run: a\\|b on &lt;script&gt;" in text


def test_replace_results_leaves_other_text_alone(tmp_path):
    path = tmp_path / "README.md"
    start, end = "<!-- kdkit:results:start -->", "<!-- kdkit:results:end -->"
    path.write_bytes(f"# é\r\n{start}old{end}\nafter".encode())
    replace_results(path, "new\n")
    assert path.read_bytes().decode() == (
        f"# é\r\n{start}\n\nnew\n\n{end}\nafter"
    )
    replace_results(path, "newer")
    assert "new\n" not in path.read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["README.md"]


def test_what_a_run_says_is_no_markdown(make_run, tmp_path):
    attack = "[x](javascript:1) `a` *b* | _c_ ~d~\n\n# e <img src=x>"
    command = f"kdkit 'a\n````\n{START_MARKER}\n{END_MARKER}' [x](y)"
    made = {"machine": attack, "commit": attack, "versions": {attack: attack}}
    runs = []
    for name in ("one", "other"):
        settings = {"recipe": attack + name, "data": {"task": attack}}
        made["command"] = f"{command} {name}"
        run = make_run(name, {**settings, "provenance": dict(made)})
        run.evaluation("student", None, None, 0.5, metrics={attack: 0.5})
        runs.append(read_run(run.run_dir))
    page = tmp_path / "page.md"
    page.write_text(f"{START_MARKER}\n{END_MARKER}\nbelow\n")
    for _ in range(2):
        replace_results(page, markdown_results(runs))
    text, *blocks = re.split(
        r"^(`{3,})sh\n.*?\n\1$", page.read_text(), flags=re.M | re.S
    )[::2]
    text = "\n".join([text, *blocks])
    assert len(blocks) == 2
    assert text.endswith("below\n")
    assert "<img" not in text
    assert not re.search(r"(?<!\\)[`~\[\]]|\n# e", text)
    assert "x\\](javascript:1) \\`a\\` \\*b\\* \\| \\_c\\_ \\~d" in text


@pytest.mark.parametrize(
    ("text", "received"),
    [
        ("no markers", "0 start and 0 end markers"),
        ("<!-- kdkit:results:start -->", "1 start and 0 end markers"),
        (
            "<!-- kdkit:results:end --><!-- kdkit:results:start -->",
            "in the wrong order",
        ),
        (
            "<!-- kdkit:results:start --><!-- kdkit:results:end -->" * 2,
            "2 start and 2 end markers",
        ),
    ],
)
def test_replace_results_refuses_a_file_without_place(tmp_path, text, received):
    path = tmp_path / "README.md"
    path.write_text(text)
    with pytest.raises(UsageError, match=received):
        replace_results(path, "new")
    assert path.read_text() == text


def test_replace_results_refuses_a_missing_file(tmp_path):
    with pytest.raises(UsageError, match="is not a file"):
        replace_results(tmp_path / "README.md", "new")


def test_a_teacher_stands_in_the_section_of_its_student(
    distillation_run, teacher_run
):
    teacher, student = (
        read_run(run.run_dir) for run in (teacher_run, distillation_run)
    )
    assert markdown_results([teacher, student]) == markdown_results([student])
    assert "teacher on sst2" in markdown_results([teacher])
