"""kdkit doctor: one problem at a time, while the other checks still run."""

import dataclasses
import json
import shutil

import pytest
from kinds import VOCABULARY, WORDS
from patients import (
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
from kdkit.doctor import NOTE, OK, RUINS, WARNING
from kdkit.doctor.diagnosis import diagnose
from kdkit.recipes import RECIPES
from kdkit.settings import override
from kdkit.training import CorpusSettings, ModelSettings, UnlabeledSettings

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


def test_names_of_other_classes(made, settings, tmp_path):
    place = tmp_path / "teacher"
    shutil.copytree(made / "teacher", place)
    labels = {"classes": ["positive", "negative"]}
    (place / "labels.json").write_text(json.dumps(labels))
    findings = diagnose(
        dataclasses.replace(settings, teacher=str(place)), tmp_path / "run"
    )
    assert checks(findings, RUINS) == {"label names"}
    assert "0: 'positive', here 'negative'" in (
        found(findings, "label names").found
    )
    assert found(findings, "label order").outcome == OK


def test_a_student_of_other_token_ids(settings, tmp_path):
    place = tmp_path / "student"
    pieces = [*VOCABULARY[:5], VOCABULARY[6], VOCABULARY[5], *VOCABULARY[7:]]
    encoder(1).save_to_preset(str(place))
    tokenizer(pieces).save_to_preset(str(place))
    student = dataclasses.replace(
        settings.student,
        checkpoint=str(place),
        **dict.fromkeys(
            ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")
        ),
        max_sequence_length=512,
        dropout=0.1,
    )
    findings = diagnose(
        dataclasses.replace(settings, student=student), tmp_path / "run"
    )
    assert checks(findings, RUINS) == {"vocabulary"}
    assert "5 is 'ab' and 'cd'" in found(findings, "vocabulary").found


@pytest.mark.parametrize(
    ("change", "check", "said"),
    [
        (
            'stages.0.objectives.0.layer_map={"1": 3}',
            "layers",
            "2 teacher layers",
        ),
        ("student.num_heads=4", "layers", "4 in the student"),
        ("student.max_sequence_length=8", "longest row", "8 positions"),
        ("student.num_layers=100000", "student", "at most 1000"),
        ("student.num_heads=3", "student", "num_heads must divide hidden_dim"),
        ("teacher=nowhere", "teacher", "nowhere"),
        ("data.data_dir=nowhere", "data", "Missing data files"),
    ],
)
def test_mistakes_that_a_run_refuses_are_rows(
    change, check, said, settings, tmp_path
):
    findings = diagnose(override(settings, [change]), tmp_path / "run")
    assert checks(findings, RUINS) == {check}
    (mistake,) = findings.ruinous
    assert said in mistake.found
    assert len(findings) > 1


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
    assert {"label order", "class balance"} <= checks(findings, OK)


def test_what_is_not_compared_without_a_teacher_is_told(settings, tmp_path):
    findings = diagnose(override(settings, ["teacher=nowhere"]), tmp_path)
    assert found(findings, "models").outcome == NOTE
    assert "there is no teacher to compare" in found(findings, "models").found


def test_a_file_that_is_not_there(settings, tmp_path):
    unlabeled = UnlabeledSettings((str(tmp_path / "text.txt"),))
    findings = diagnose(
        dataclasses.replace(settings, unlabeled=unlabeled), tmp_path / "run"
    )
    assert "files" in checks(findings, RUINS)
    assert "text.txt: there is no such file" in found(findings, "files").found


def test_labels_that_cannot_be_smoothed(settings, tmp_path):
    """Scores, of another task; that alone is more than without smoothing."""
    task = ["data.task=stsb", "data.data_dir=nowhere"]
    smoothed = ["stages.1.hard_label_weight=1", "stages.1.label_smoothing=0.1"]
    before, after = (
        diagnose(override(settings, changes), tmp_path / "run")
        for changes in (task, [*task, *smoothed])
    )
    more = checks(after, RUINS) - checks(before, RUINS)
    assert more == {"label smoothing"}
    said = found(after, "label smoothing").found
    assert "labels with one class each" in said


def test_text_that_is_longer_than_the_student_reads(settings, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(f"{' '.join(WORDS[:5])}\n" * 20)
    corpus = CorpusSettings((str(file),), sequence_length=64)
    on_text, *_ = RECIPES["bert_small"].stages
    findings = diagnose(
        dataclasses.replace(
            settings, stages=(on_text, *settings.stages), corpus=corpus
        ),
        tmp_path / "run",
    )
    assert checks(findings, RUINS) == {"stages on the corpus"}
    assert "16 positions" in found(findings, "stages on the corpus").found


def test_several_mistakes_are_in_one_table(settings, tmp_path):
    changes = ["student.num_heads=4", "student.max_sequence_length=8"]
    findings = diagnose(override(settings, changes), tmp_path / "run")
    assert checks(findings, RUINS) == {"layers", "longest row"}


def test_a_dev_of_one_class_is_not_blamed_on_the_teacher(
    made, settings, tmp_path
):
    root = copied(made, tmp_path)
    rows = [
        row
        for row, label in zip(*rows_of(root, "dev"), strict=True)
        if label == 1
    ]
    # Each of them twice, so that there are 100 answers.
    write_rows(root / "SST-2", "dev", 2 * rows, [1] * 2 * len(rows))
    findings = diagnose(
        override(settings, [f"data.data_dir={root}"]), tmp_path / "run"
    )
    assert checks(findings, RUINS) == set()
    assert checks(findings, WARNING) == {
        "class balance of dev",
        "repeated rows",
    }
    assert f"All labels of {2 * len(rows)} rows are the same" in (
        found(findings, "class balance of dev").found
    )
    alike = {"teacher accuracy", "label order"}
    assert checks(findings, NOTE) == alike


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
    assert main(["doctor", "tinybert", "--config", file, *wrong]) == 1
    assert "1 ruins the run (longest row)" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--devices", "3"], "--devices alone"),
        (["--devices", "0", "--strategy", "mirrored"], "at least 1 device"),
    ],
)
@pytest.mark.parametrize("verb", ["doctor", "distill"])
def test_devices_that_no_run_takes_are_refused(
    verb, words, said, settings, config, tmp_path, capsys
):
    words = ["tinybert", "--config", config(settings), *words]
    assert main([verb, *words, "--run-dir", str(tmp_path / "run")]) == 2
    assert said in capsys.readouterr().err


def test_the_verb_takes_the_options_of_distill(capsys):
    assert main(["doctor", "tinybert", "--task", "sst2"]) == 2
    assert "Missing: --teacher" in capsys.readouterr().err
    assert main(["doctor", "tinybert", "--smoke", "--force"]) == 2
    assert "Unknown option --force" in capsys.readouterr().err


def test_the_file_of_a_run_alone_says_what_is_distilled(
    timed, settings, config, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    file = config(dataclasses.replace(settings, stages=settings.stages[1:]))
    assert main(["doctor", "--config", file]) == 0
    assert "student size   ok" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    assert main(["doctor"]) == 2
    assert "Missing: RECIPE (see kdkit list), or --config" in (
        capsys.readouterr().err
    )


@pytest.mark.large
def test_a_teacher_that_the_run_trains_is_checked_later(capsys):
    assert main(["doctor", "tinybert", "--smoke"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "It is trained within the run" in printed
    assert "BERT 2×16 of 0.009 M parameters from BERT 3×32" in printed
