"""kdkit doctor: one problem at a time."""

import dataclasses
import json
import shutil

import pytest
from kinds import VOCABULARY
from patients import (
    HEAD,
    LENGTH,
    NUM_WORDS,
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
from kdkit.doctor import NOTE, OK, RUINS, WARNING
from kdkit.doctor.diagnosis import diagnose
from kdkit.errors import RunError, UsageError
from kdkit.settings import override
from kdkit.training import ModelSettings, distill

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


def test_the_advice_for_another_order_is_an_option(made, tmp_path, capsys):
    """A checkpoint whose classes have no names, and a table in words."""
    loaded = models.load_classifier(made / "teacher", 2)
    teacher, table = tmp_path / "teacher", tmp_path / "reviews.csv"
    models.save_preset(loaded.model, loaded.tokenizer, teacher, LENGTH)
    rows = [
        f"{text},{('so so', 'bad')[label]}"
        for text, label in zip(*rows_of(made, "dev"), strict=True)
    ]
    table.write_text("\n".join(["review,sentiment", *rows]))
    columns = ["--text-column", "review", "--label-column", "sentiment"]
    words = ["doctor", "vanilla_kd", "--train", str(table), *columns]
    words += ["--teacher", str(teacher), "--num-layers", "1"]
    words += ["--max-length", str(LENGTH)]
    assert main(words) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("--labels 'so so' bad") == 2
    labels = ["--labels", "so so", "bad"]
    assert main([*words, *labels]) == 0
    assert "dev set aside" in capsys.readouterr().out
    main([*words, *labels, "--dev", str(table)])
    assert "dev set aside" not in capsys.readouterr().out
    words = ["evaluate", str(teacher), "--test", str(table), *columns]
    assert main([*words, *labels]) == 0
    line = capsys.readouterr().out.strip().splitlines()[-1]
    assert json.loads(line)["metrics"]["accuracy"] == 1


def test_labels_in_another_order(made, settings, tmp_path):
    data = reversed_labels(made, tmp_path, "train", "dev")
    findings = diagnose(override(settings, [data]), tmp_path / "run")
    both = {"label order", "label order of train"}
    assert checks(findings, RUINS) == both
    assert (
        "0.0 % of 120 rows are right as it is, 100.0 % in another order: "
        "the teacher's class 0 is this data's 'positive'"
    ) in found(findings, "label order").found


def test_labels_in_another_order_in_the_training_file_alone(
    made, settings, tmp_path
):
    data = reversed_labels(made, tmp_path, "train")
    findings = diagnose(override(settings, [data]), tmp_path / "run")
    assert checks(findings, RUINS) == {"label order of train"}
    order = found(findings, "label order of train")
    assert "0.0 % of 40 rows are right" in order.found
    assert "labels of the training file" in order.advice


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


def test_the_verb_takes_the_options_of_distill(capsys):
    assert main(["doctor", "tinybert", "--task", "sst2"]) == 2
    assert "Missing: --teacher" in capsys.readouterr().err
    assert main(["doctor", "tinybert", "--smoke", "--force"]) == 2
    assert "Unknown option '--force'" in capsys.readouterr().err


def test_the_file_of_a_run_alone_says_what_is_distilled(
    timed, settings, config, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    file = config(dataclasses.replace(settings, stages=settings.stages[1:]))
    assert main(["doctor", "--config", file]) == 0
    assert "student size   ok" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    assert main(["doctor"]) == 2
    assert "Unknown recipe None" in capsys.readouterr().err


@pytest.mark.large
def test_a_teacher_that_the_run_trains_is_checked_later(capsys):
    assert main(["doctor", "tinybert", "--smoke"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "It is trained within the run" in printed
    assert "BERT 2×16 of 0.009 M parameters from BERT 3×32" in printed


@pytest.mark.large
def test_a_teacher_with_fewer_embeddings_than_ids_is_not_asked(
    timed, settings, tmp_path
):
    """It would stop at the first row with one of the last words."""
    place = tmp_path / "teacher"
    few = NUM_WORDS // 2
    model = models.add_head(encoder(2, 16, num_words=few), HEAD)
    models.save_preset(model, tokenizer(), place, LENGTH, HEAD)
    settings = dataclasses.replace(settings, teacher=str(place))
    findings = diagnose(settings, tmp_path / "run")
    assert checks(findings, RUINS) == {"token table"}
    assert f"The teacher has embeddings for {few} ids" in (
        found(findings, "token table").found
    )
    assert checks(findings, NOTE) == {"time"}
    assert "Not measured: see token table" in found(findings, "time").found
    assert "student size" in checks(findings, OK)
    with pytest.raises(RunError, match="token table"):
        distill(settings, tmp_path / "run")
