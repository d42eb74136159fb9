"""experiments/sentence_encoders_table.py: a row for the seeds of a student."""

import statistics

import pytest
from helpers import experiment


def test_seeds_make_one_row_and_runs_without_the_metric_none(
    make_distillation, make_run, tmp_path, monkeypatch, capsys
):
    table = experiment("sentence_encoders_table")
    students = {0: 0.83, 1: 0.84}
    for seed, accuracy in students.items():
        make_distillation(f"layers_seed{seed}", seed=seed, student=accuracy)
    run = make_run(
        "languages_seed0", {"recipe": "multilingual", "teacher": "x"}
    )
    run.evaluation("student", "s", 1, 0.6, metrics={"bitext_accuracy": 0.6})
    words = ["table", str(tmp_path), "--metric", "accuracy"]
    monkeypatch.setattr("sys.argv", words)
    assert table.main() == 0
    head, _, row, *rest = capsys.readouterr().out.splitlines()
    assert "of teacher" in head
    name, seeds, _, trained, *_ = row.strip("| ").split(" | ")
    mean = 100 * statistics.mean(students.values())
    assert (name, seeds) == ("layers", "2")
    assert trained == f"{mean:.2f} (83.00 to 84.00)"
    assert not any("languages" in one for one in rest)


def test_a_folder_without_runs_is_refused(tmp_path, monkeypatch, capsys):
    table = experiment("sentence_encoders_table")
    monkeypatch.setattr("sys.argv", ["table", str(tmp_path)])
    with pytest.raises(SystemExit):
        table.main()
    assert "no run NAME_seedN" in capsys.readouterr().err
