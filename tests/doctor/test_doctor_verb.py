"""kdkit doctor: one problem at a time."""

import dataclasses
import json
import shutil

import pytest
from kit.tasks import VOCABULARY
from patients import (
    HEAD,
    LENGTH,
    ROWS,
    checks,
    copied,
    encoder,
    found,
    rows_of,
    tokenizer,
    write_rows,
)

from kdkit import models
from kdkit.cli.main import main
from kdkit.doctor import OK, RUINS, WARNING
from kdkit.doctor.diagnosis import diagnose
from kdkit.errors import UsageError
from kdkit.settings import override
from kdkit.training import ModelSettings

pytestmark = pytest.mark.usefixtures("quickly")


def test_what_is_right_is_said_in_numbers(settings, tmp_path):
    findings = diagnose(settings, tmp_path / "run")
    assert checks(findings, RUINS) == checks(findings, WARNING) == set()
    assert checks(findings, OK) >= {
        "data", "teacher accuracy", "teacher logits", "label order",
        "label order of train", "teacher at rest", "teacher frozen",
        "student weights", "vocabulary", "layers", "student size",
        "rows kept apart", "class balance", "lengths", "memory", "disk",
        "unknown words",
    }  # fmt: skip
    accuracy = found(findings, "teacher accuracy")
    assert f"Of {ROWS['dev']} answers 100.0 % are right" in accuracy.found
    assert "0 of 120 in dev, 0 of 20 in test" in (
        found(findings, "rows kept apart").found
    )
    assert not (tmp_path / "run").exists()


def test_few_updates_of_random_weights_are_a_warning(settings, tmp_path):
    rates = [f"stages.{number}.learning_rate=5e-5" for number in (0, 1)]
    findings = diagnose(override(settings, rates), tmp_path / "run")
    assert checks(findings, WARNING) == {"updates"}
    finding = found(findings, "updates")
    updates = 2 * ROWS["train"] // 8
    way = updates / 2 * (5e-5 + 5e-5 / 2)  # constant, and falling to 0
    assert f"{updates} updates move each by {way:.2g}" in finding.found
    assert f"about {updates * 0.05 / way:.0f} updates" in finding.advice
    # The teacher's layers come with its head; those of others with a new one.
    place = str(settings.teacher)
    for source, found_checks in (("teacher", set()), (place, {"updates"})):
        copied = dataclasses.replace(
            override(settings, rates),
            student=ModelSettings(copy_from=source, copy_layers=(1,)),
        )
        findings = diagnose(copied, tmp_path / "run")
        assert checks(findings, WARNING) == found_checks
    assert "starts from a new head" in found(findings, "updates").found


def reversed_labels(made, tmp_path, *splits):
    root = copied(made, tmp_path)
    for split in splits:
        rows, labels = rows_of(root, split)
        flipped = [1 - label for label in labels]
        write_rows(root / "SST-2", split, rows, flipped)
    return f"data.data_dir={root}"


def test_labels_in_another_order(made, settings, tmp_path):
    data = reversed_labels(made, tmp_path, "train", "dev")
    findings = diagnose(override(settings, [data]), tmp_path / "run")
    both = {"label order", "label order of train"}
    assert checks(findings, RUINS) == both
    assert (
        "0.0 % of 120 rows are right as it is, 100.0 % in another order: "
        "the teacher's class 0 is this data's 'positive'"
    ) in found(findings, "label order").found


def with_other_names(settings, tmp_path):
    place = tmp_path / "teacher"
    shutil.copytree(settings.teacher, place)
    labels = {"classes": ["positive", "negative"]}
    (place / "labels.json").write_text(json.dumps(labels))
    return dataclasses.replace(settings, teacher=str(place))


def with_other_ids(settings, tmp_path):
    place = tmp_path / "student"
    pieces = [*VOCABULARY[:5], VOCABULARY[6], VOCABULARY[5], *VOCABULARY[7:]]
    encoder(1).save_to_preset(str(place))
    tokenizer(pieces).save_to_preset(str(place))
    student = ModelSettings(checkpoint=str(place))
    return dataclasses.replace(settings, student=student)


def with_an_untrained_teacher(settings, tmp_path):
    place = tmp_path / "encoder"
    encoder(2, 16).save_to_preset(str(place))
    tokenizer().save_to_preset(str(place))
    return dataclasses.replace(settings, teacher=str(place))


def with_other_ids_in_a_teacher(settings, tmp_path):
    second = tmp_path / "second"
    model = models.add_head(encoder(2, 16), HEAD)
    pieces = tokenizer([*VOCABULARY[:5], *VOCABULARY[:4:-1]])
    models.save_preset(model, pieces, second, LENGTH, HEAD)
    return dataclasses.replace(settings, more_teachers=(str(second),))


def with_few_positions(settings, tmp_path):
    return override(settings, ["student.max_sequence_length=8"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_other_names, "'positive'"),
        (with_other_ids, "token ids"),
        (with_other_ids_in_a_teacher, "token ids"),
        (with_an_untrained_teacher, "no trained head"),
        (with_few_positions, "8 positions"),
    ],
)
def test_what_a_run_refuses_the_doctor_refuses(
    change, said, settings, tmp_path
):
    with pytest.raises(UsageError, match=said):
        diagnose(change(settings, tmp_path), tmp_path / "run")


@pytest.mark.parametrize(
    "change",
    ["student.hidden_dim=100000000", "student.max_sequence_length=10000000000"],
)
def test_a_student_that_no_machine_holds_is_not_built(
    change, settings, tmp_path
):
    findings = diagnose(override(settings, [change]), tmp_path / "run")
    assert checks(findings, RUINS) == {"memory"}
    assert "this machine has" in found(findings, "memory").found


def test_the_verb_prints_a_table_and_says_no_by_its_status(
    timed, settings, config, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    file = config(dataclasses.replace(settings, stages=settings.stages[1:]))
    assert main(["doctor", "tinybert", "--config", file]) == 0
    printed = capsys.readouterr().out
    assert "student size   ok" in printed
    assert "prediction layer 5 ×" in printed
    assert "ruins" not in printed.splitlines()[-1]
    wrong = ["--set", "student.max_sequence_length=8"]
    assert main(["doctor", "tinybert", "--config", file, *wrong]) == 2
    assert "8 positions" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--devices", "3"], "--devices needs --strategy"),
    ],
)
def test_devices_that_no_run_takes_are_refused(
    words, said, settings, config, tmp_path, capsys
):
    words = ["tinybert", "--config", config(settings), *words]
    assert main(["distill", *words, "--run-dir", str(tmp_path / "run")]) == 2
    assert said in capsys.readouterr().err
