"""What runs recorded, kept without their weights."""

import json

import pytest

from kdkit.cli.main import main
from kdkit.errors import UsageError
from kdkit.reporting import keep_records
from kdkit.reporting import keeping
from kdkit.reporting import markdown_results
from kdkit.reporting import read_run
from kdkit.reporting.results import group_by_seed


def records_of(*runs):
    return [read_run(run.run_dir) for run in runs]


def test_kept_records_give_the_results_of_the_runs(distillation_run, tmp_path):
    (run,) = records_of(distillation_run)
    (kept,) = keep_records([run], tmp_path / "kept")
    assert markdown_results([read_run(kept)]) == markdown_results([run])


def test_kept_records_are_two_text_files_for_run_and_teacher(
    distillation_run, teacher_run, tmp_path
):
    (distillation_run.run_dir / "student").mkdir()
    keep_records(records_of(distillation_run), tmp_path / "kept")
    expected = {
        f"{run.run_dir.name}/{name}"
        for run in (distillation_run, teacher_run)
        for name in ("config.json", "metrics.jsonl")
    }
    found = (tmp_path / "kept").rglob("*.*")
    assert {str(path.relative_to(tmp_path / "kept")) for path in found} == (
        expected
    )


def test_kept_records_do_not_say_where_things_lay(make_run, tmp_path):
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
    (kept,) = keep_records(records_of(run), tmp_path / "kept")
    config = json.loads((kept / "config.json").read_text())
    assert config == {
        "verb": "distill",
        "data": {"task": "sst2", "data_dir": "glue"},
        "provenance": {
            "command": "kdkit distill pkd --teacher teacher --data-dir=glue "
            "--set 'corpus.column=my text'"
        },
        "text": ["corpus.txt", "9 kB are free in a."],
    }
    assert read_run(kept).events[0]["file"] == "student.tflite"


def test_runs_that_share_a_teacher_keep_it_once(make_distillation, tmp_path):
    runs = [make_distillation(f"pkd_seed{seed}", seed) for seed in (0, 1)]
    places = keep_records(records_of(*runs), tmp_path / "kept")
    assert [place.name for place in places] == ["pkd_seed0", "pkd_seed1"]
    teachers = {read_run(place).teacher_run.run_dir for place in places}
    assert len(teachers) == 1


def test_directories_of_seeds_are_kept_under_the_runs_name(make_run, tmp_path):
    run = make_run("pkd/seed_3", {})
    (place,) = keep_records(records_of(run), tmp_path)
    assert place == tmp_path / "pkd_seed3"


def test_runs_that_began_differently_are_told_apart(make_run, tmp_path):
    runs = []
    for name in ("kd", "labels"):
        before = make_run(f"general_{name}/seed_0", {})
        before.log("model", arm="student")
        model = {"checkpoint": str(before.run_dir)}
        runs.append(make_run(f"{name}/seed_0", {"seed": 0, "model": model}))
        runs[-1].log("model", arm="student")
    kept = keep_records(records_of(*runs), tmp_path / "kept")
    began = [read_run(place).config["model"]["checkpoint"] for place in kept]
    assert began == ["general_kd_seed0", "general_labels_seed0"]
    assert len(group_by_seed(list(map(read_run, kept)))) == 2


def test_teacher_that_a_run_trained_is_kept_within_it(
    make_run, make_teacher, tmp_path
):
    run = make_run("run", {"teacher": {"verb": "train-teacher"}})
    make_teacher("run/teacher_run")
    (place,) = keep_records(records_of(run), tmp_path / "kept")
    assert read_run(place).teacher_run.run_dir == place / "teacher_run"


def test_keeping_a_run_again_brings_its_new_events(distillation_run, tmp_path):
    keep_records(records_of(distillation_run), tmp_path / "kept")
    distillation_run.log("evaluation", arm="student", split="test")
    (place,) = keep_records(records_of(distillation_run), tmp_path / "kept")
    assert read_run(place).events[-1]["split"] == "test"


def test_another_run_of_that_name_is_not_overwritten(make_run, tmp_path):
    first = make_run("here/pkd", {"seed": 0})
    first.log("model", arm="student")
    second = make_run("there/pkd", {"seed": 0})
    second.clock += 60
    second.log("model", arm="student")
    (place,) = keep_records(records_of(first), tmp_path / "kept")
    before = (place / "metrics.jsonl").read_text()
    with pytest.raises(UsageError, match="Rename one of them"):
        keep_records(records_of(second), tmp_path / "kept")
    assert (place / "metrics.jsonl").read_text() == before
    with pytest.raises(UsageError, match="different names"):
        keep_records(records_of(first, second), tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(
    distillation_run, tmp_path
):
    file = tmp_path / "kept"
    file.write_text("mine")
    with pytest.raises(UsageError, match="a file. Name another place"):
        keep_records(records_of(distillation_run), file)
    assert file.read_text() == "mine"


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("where", [".", "link", "pkd", "teacher/kept"])
def test_a_run_is_not_overwritten_by_its_own_records(
    where, make_run, tmp_path, capsys
):
    runs = tmp_path / "runs"
    teacher = make_run("runs/teacher", {"verb": "train-teacher"})
    run = make_run("runs/pkd", {"teacher": str(teacher.run_dir)})
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "pkd").symlink_to(run.run_dir)
    folder = tmp_path / "place" if where == "link" else runs / where
    before = contents(tmp_path)
    assert main(["report", str(run.run_dir), "--keep", str(folder)]) == 2
    assert "a run itself, or a place within it" in capsys.readouterr().err
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "names", [("config.json", "metrics.jsonl", "student"), ("metrics.jsonl",)]
)
def test_records_are_not_kept_beside_other_files(names, make_run, tmp_path):
    run = make_run("here/pkd", {})
    place = tmp_path / "kept" / "pkd"
    place.mkdir(parents=True)
    for name in names:
        (place / name).write_text("{}")
    before = contents(place)
    with pytest.raises(UsageError, match=f"Received: '{names[-1]}'"):
        keep_records(records_of(run), tmp_path / "kept")
    assert contents(place) == before


def test_records_that_were_reported_on_are_replaced(make_run, tmp_path):
    run = make_run("here/pkd", {})
    run.model("student")
    (place,) = keep_records(records_of(run), tmp_path / "kept")
    assert main(["report", str(place)]) == 0
    (place / ".DS_Store").write_bytes(b"of a file manager")
    assert keep_records(records_of(run), tmp_path / "kept") == [place]


@pytest.mark.parametrize("count", range(4))
def test_records_whose_keeping_was_stopped_are_kept_by_the_same_call(
    count, make_run, make_teacher, tmp_path, monkeypatch
):
    run = make_run("here/pkd", {"teacher": {"verb": "train-teacher"}})
    run.model("student")
    make_teacher("here/pkd/teacher_run")
    keep_records(records_of(run), tmp_path / "whole")
    written = []

    def stop_after_count(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        if len(written) == count:  # as where the process is killed
            (path.parent / f".{path.name}.kdkit-abcd1234").mkdir()
            raise KeyboardInterrupt
        path.write_text(text)
        written.append(path)

    with monkeypatch.context() as patch:
        patch.setattr(keeping, "write_text", stop_after_count)
        with pytest.raises(KeyboardInterrupt):
            keep_records(records_of(run), tmp_path / "kept")
    keep_records(records_of(run), tmp_path / "kept")
    assert contents(tmp_path / "kept") == contents(tmp_path / "whole")
    assert not list((tmp_path / "kept").rglob(".*"))


def test_another_run_does_not_replace_what_was_stopped(make_run, tmp_path):
    first = make_run("here/pkd", {"seed": 0})
    second = make_run("there/pkd", {"seed": 1})
    (place,) = keep_records(records_of(first), tmp_path / "kept")
    (place / "metrics.jsonl").unlink()
    before = contents(place)
    with pytest.raises(UsageError, match="Rename one of them"):
        keep_records(records_of(second), tmp_path / "kept")
    assert contents(place) == before
