"""Files of records: what runs recorded, without their weights."""

import json

import pytest

from kdkit.cli.main import main
from kdkit.errors import UsageError
from kdkit.reporting import (
    group_by_seed,
    keep_records,
    keeping,
    markdown_results,
    read_records,
    read_run,
)


def records_of(*runs):
    return [read_run(run.run_dir) for run in runs]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "kept" / "runs.jsonl"


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_file_of_records_gives_the_results_of_the_runs(
    distillation_run, teacher_run, file
):
    (run,) = records_of(distillation_run)
    name, teacher = run.label, teacher_run.run_dir.name
    assert keep_records([run], file) == {teacher: "added", name: "added"}
    assert [line["name"] for line in lines_of(file)] == [name, teacher]
    kept, kept_teacher = read_records(file)
    assert markdown_results([kept]) == markdown_results([run])
    assert kept.teacher_run == kept_teacher
    before = file.read_bytes()
    outcomes = keep_records([kept_teacher, kept], file)
    assert outcomes == {name: "unchanged", teacher: "unchanged"}
    assert file.read_bytes() == before


def test_records_do_not_contain_places_of_the_machine(make_run, file):
    settings = {
        "data": {"task": "sst2", "data_dir": "/mnt/somewhere/glue"},
        "provenance": {
            "command": "kdkit distill pkd --teacher ~/own/teacher "
            "--data-dir=/mnt/x/glue --set corpus.column='my text'"
        },
        "text": ["../beside/corpus.txt", "9 kB are free in /mnt/x/runs/a."],
    }
    run = make_run("run", settings)
    run.export("student", "fp32", file="/mnt/somewhere/exports/student.tflite")
    keep_records(records_of(run), file)
    (kept,) = read_records(file)
    assert kept.config == {
        "verb": "distill",
        "data": {"task": "sst2", "data_dir": "glue"},
        "provenance": {
            "command": "kdkit distill pkd --teacher teacher --data-dir=glue "
            "--set 'corpus.column=my text'"
        },
        "text": ["corpus.txt", "9 kB are free in a."],
    }
    assert kept.events[0].file == "student.tflite"


def test_runs_that_share_a_teacher_keep_it_once(make_distillation, file):
    runs = [make_distillation(f"pkd_seed{seed}", seed) for seed in (0, 1)]
    keep_records(records_of(*runs), file)
    first, second = read_records(file, ["pkd_seed*"])
    assert [first.label, second.label] == ["pkd_seed0", "pkd_seed1"]
    assert first.teacher_run.run_dir == second.teacher_run.run_dir
    assert len(lines_of(file)) == 3


def test_runs_that_began_differently_are_told_apart(make_run, file):
    runs = []
    for name in ("kd", "labels"):
        before = make_run(f"general_{name}/seed_0", {})
        before.log("model", arm="student")
        model = {"checkpoint": str(before.run_dir)}
        runs.append(make_run(f"{name}/seed_0", {"seed": 0, "model": model}))
        runs[-1].log("model", arm="student")
    keep_records(records_of(*runs), file)
    kept = read_records(file)
    assert [run.label for run in kept] == ["kd_seed0", "labels_seed0"]
    began = [run.config["model"]["checkpoint"] for run in kept]
    assert began == ["general_kd_seed0", "general_labels_seed0"]
    assert len(group_by_seed(kept)) == 2


def test_teacher_that_a_run_trained_is_kept_within_it(
    make_run, make_teacher, file
):
    run = make_run("run", {"teacher": {"verb": "train-teacher"}})
    make_teacher("run/teacher_run")
    keep_records(records_of(run), file)
    (kept,) = read_records(file)
    assert kept.teacher_run.config["verb"] == "train-teacher"
    assert kept.teacher_run.name == "run_teacher"


def test_a_run_that_is_kept_again_replaces_only_its_record(
    make_run, distillation_run, file
):
    settings = {"seed": 0, "teacher": {"verb": "train-teacher"}}
    others = [make_run(name, settings) for name in ("a", "z")]
    for other in others:
        other.log("model", arm="student")
    keep_records(records_of(distillation_run, *others), file)
    before = {line["name"]: line for line in lines_of(file)}
    distillation_run.log("evaluation", arm="student", split="test")
    outcomes = keep_records(records_of(distillation_run), file)
    name = distillation_run.run_dir.name
    assert outcomes == {"teacher": "unchanged", name: "updated"}
    (kept,) = read_records(file, [name])
    assert kept.events[-1].split == "test"
    after = {line["name"]: line for line in lines_of(file)}
    assert after == before | {name: after[name]}


def test_another_run_replaces_a_record_if_it_is_named(make_run, file, tmp_path):
    runs = []
    for place in ("here", "there"):
        teacher = make_run(f"{place}/teacher", {"verb": "train-teacher"})
        run = make_run(f"{place}/pkd", {"teacher": str(teacher.run_dir)})
        for one in (teacher, run):
            one.clock += 60 * len(runs)
            one.log("model", arm="student")
        runs.append((teacher, run))
    (teacher, run), (other_teacher, other) = runs
    keep_records(records_of(run), file)
    before = file.read_bytes()
    with pytest.raises(UsageError, match="another run as 'teacher'"):
        keep_records(records_of(other), file)
    assert file.read_bytes() == before
    found = keep_records(records_of(other_teacher), file)
    remark = "unchanged, but its teacher was replaced"
    assert found == {"teacher": "replaced", "pkd": remark}
    found = keep_records(records_of(other, other_teacher), file)
    assert found == {"teacher": "unchanged", "pkd": "replaced"}
    with pytest.raises(UsageError, match="different names"):
        keep_records(records_of(run, other), tmp_path / "both.jsonl")
    assert not (tmp_path / "both.jsonl").exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "a directory"),
        ("mine", "line 1, is not a record"),
        ('{"event": "model", "time": 1}\n', "line 1, is not a record"),
        ('{"name": "../a", "config": {}, "events": []}\n', "its name is"),
        ('{"name": "a", "config": {}, "events": 1}\n', "a list of events"),
        ('{"name": "a", "config": {}, "events": []}\n' * 2, "occurs twice"),
        ('{"name": "a", "config": {"seed": "x"}, "events": []}\n', "'seed'"),
    ],
)
def test_other_files_are_neither_read_nor_replaced(
    content, problem, make_run, tmp_path
):
    file = tmp_path / "file"
    if content is None:
        file.mkdir()
    else:
        file.write_text(content)
    with pytest.raises(UsageError, match=problem):
        read_records(file)
    with pytest.raises(UsageError, match=problem):
        keep_records(records_of(make_run("run", {})), file)
    assert content is None or file.read_text() == content


def test_a_digit_that_changed_in_a_record_is_noticed(make_run, file):
    run = make_run("run", {"seed": 17})
    run.log("model", arm="student")
    keep_records(records_of(run), file)
    file.write_text(file.read_text().replace("17", "19"))
    with pytest.raises(UsageError, match="line 1, is not a record.*damaged"):
        read_records(file)


def test_a_record_that_lacks_events_has_a_remark(file):
    file.parent.mkdir()
    config = {"verb": "distill", "teacher": "bert"}
    record = {"name": "run", "config": config, "events": [{"event": "x"}]}
    file.write_text(json.dumps(record))
    (run,) = read_records(file)
    assert run.remarks == (
        "The last line of the events of run is truncated and was ignored.",
    )


def test_a_write_that_is_stopped_leaves_the_old_file(
    make_run, file, monkeypatch
):
    run = make_run("pkd", {})
    run.model("student")
    keep_records(records_of(run), file)
    before = file.read_bytes()
    run.model("teacher")

    def stop(path, text):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(keeping, "write_text", stop)
        with pytest.raises(KeyboardInterrupt):
            keep_records(records_of(run), file)
    assert file.read_bytes() == before
    assert keep_records(records_of(run), file) == {"pkd": "updated"}


def test_report_reads_a_file_of_records(make_run, file, tmp_path, capsys):
    names = ("pkd_seed0", "pkd_seed1", "kd_seed0")
    runs = []
    for name in names:
        run = make_run(name, {"seed": int(name[-1]), "recipe": name[:-6]})
        run.evaluation("student", "fine_tuning", 1, 0.8)
        runs.append(str(run.run_dir))
    assert main(["report", *runs, "--keep", str(file)]) == 0
    printed = capsys.readouterr().out
    assert all(f"{name}: added" in printed for name in names)
    page = tmp_path / "page.md"
    page.write_text("<!-- kdkit:results:start -->\n<!-- kdkit:results:end -->")
    words = ["report", str(file), "--only", "pkd_*", "kd_seed0"]
    assert main([*words, "--markdown", str(page)]) == 0
    assert page.read_text().index("### pkd") < page.read_text().index("### kd")
    # Pages are written where they are asked for.
    assert {path.name for path in file.parent.iterdir()} == {file.name}
    assert main([*words[:-1], "--pages", str(tmp_path / "pages")]) == 0
    pages = {path.name for path in (tmp_path / "pages").iterdir()}
    assert pages == {"pkd_seed0.html", "pkd_seed1.html"}
    capsys.readouterr()
    for wrong, problem in (
        (["report", str(file), "--only", "pk_seed0"], "such as pkd_seed0"),
        (["report", runs[0], "--only", "pkd_*"], "--only chooses runs"),
        (["report", runs[0], str(file), "--pages", "x"], "the same name"),
    ):
        assert main(wrong) == 2
        assert problem in capsys.readouterr().err
