"""kdkit doctor on a whole run: one problem at a time."""

import json
import shutil

import keras
import pytest
from kit.adapter import command
from kit.helpers import save_classifier
from kit.tasks import VOCABULARY, write_encoder
from patients import LENGTH, ROWS, TASK, encoder, tokenizer

from kdkit import models
from kdkit.config.data import Corpus
from kdkit.config.model import Checkpoint, Layers
from kdkit.config.runs import TextConfig
from kdkit.doctor import OK, RUINS, WARNING
from kdkit.recipes import Stage
from kdkit.runs.run import run


def test_what_is_right_is_said_in_numbers(settings, diagnose):
    found = diagnose(settings)
    assert found.checks(RUINS) == found.checks(WARNING) == set()
    assert found.checks(OK) == {
        "teacher accuracy", "teacher logits", "label order", "rows kept apart",
        "unknown words", "truncated examples", "updates", "memory",
    }  # fmt: skip
    accuracy = f"on dev: accuracy 100.0 % on {ROWS['dev']} examples"
    assert accuracy in found["teacher accuracy"].found
    assert "0 of 120 in dev (0 %)" in found["rows kept apart"].found


def test_few_updates_of_random_weights_are_a_warning(
    settings, changed, diagnose, tmp_path
):
    rates = {
        f"stages.{stage.name}.learning_rate": 5e-5 for stage in settings.stages
    }
    found = diagnose(changed(rates))
    assert found.checks(WARNING) == {"updates"}
    updates = 2 * ROWS["train"] // 8
    way = updates / 2 * (5e-5 + 5e-5 / 2)  # constant, and falling to 0
    assert f"the updates move each by {way:.2g}" in found["updates"].found
    # The teacher's layers come with its head; those of others with a new one.
    (teacher,) = settings.teacher
    shutil.copytree(teacher, tmp_path / "other")
    other = str(tmp_path / "other")
    for source, checks in (("teacher", set()), (other, {"updates"})):
        student = Layers(copy_from=source, layers=(1,))
        found = diagnose(changed(rates, student=student))
        assert found.checks(WARNING) == checks


def wrong_order(table):
    for split in ("train", "dev"):
        rows, labels = table.rows(split)
        table.write(split, rows, [1 - label for label in labels])


def dev_in_train(table):
    rows, labels = table.rows("train")
    more, more_labels = table.rows("dev")
    more = [row.upper() for row in more[:30]]
    table.write("train", rows + more, labels + more_labels[:30])


def foreign_words(table):
    rows, labels = table.rows("train")
    rows = [f"{row} schön" if n % 2 else row for n, row in enumerate(rows)]
    table.write("train", rows, labels)


def quoted_twice(table):
    rows, labels = table.rows("train")
    table.write("train", [f'"{row}"' for row in rows], labels)


@pytest.mark.parametrize(
    ("spoil", "outcome", "said"),
    [
        (
            wrong_order,
            RUINS,
            {
                "label order": "0.0 % of 120 answers are right as it is, "
                "100.0 % in another order: the teacher's class 0 is this "
                "data's 'positive'",
            },
        ),
        (dev_in_train, RUINS, {"rows kept apart": "30 of 120 in dev"}),
        (
            foreign_words,
            RUINS,
            {"unknown words": "20 of 40 in train (50.0 %)"},
        ),
        (
            quoted_twice,
            WARNING,
            {"quoted cells": "40 of 40 in train (100.0 %) have a CSV"},
        ),
    ],
)
def test_rows_with_a_problem(spoil, outcome, said, table, changed, diagnose):
    spoil(table)
    found = diagnose(changed(table.place))
    assert found.checks(outcome) >= set(said)
    for check, words in said.items():
        assert words in found[check].found


def test_a_step_that_is_not_made_is_examined_first(
    settings, changed, diagnose, tmp_path
):
    file = tmp_path / "text.txt"
    file.write_text("ab cd ef\n" * 9)
    step = TextConfig(
        recipe="pretraining",
        corpus=Corpus(files=(str(file),), sequence_length=LENGTH),
        student=settings.student,
        tokenizer=settings.teacher[0],
        stages=(Stage("any", 1, 1e-3, data="corpus", hard_label_weight=1.0),),
    )
    student = Checkpoint(checkpoint="run:general")
    found = diagnose(changed(student=student, steps={"general": step}))
    assert found.checks(OK) >= {"rows kept apart", "steps"}
    assert "after step general" in found["steps"].found


def with_other_names(changed, place):
    shutil.copytree(changed().teacher[0], place)
    labels = {"classes": ["positive", "negative"]}
    (place / "labels.json").write_text(json.dumps(labels))
    return changed(teacher=(str(place),))


def with_other_ids(changed, place):
    pieces = [*VOCABULARY[:5], VOCABULARY[6], VOCABULARY[5], *VOCABULARY[7:]]
    encoder(1).save_to_preset(str(place))
    tokenizer(pieces).save_to_preset(str(place))
    return changed(student=Checkpoint(checkpoint=str(place)))


def with_an_untrained_teacher(changed, place):
    encoder(2, 16).save_to_preset(str(place))
    tokenizer().save_to_preset(str(place))
    return changed(teacher=(str(place),))


def with_other_ids_in_a_teacher(changed, place):
    model = models.add_head(encoder(2, 16), TASK.head)
    pieces = tokenizer([*VOCABULARY[:5], *VOCABULARY[:4:-1]])
    save_classifier(model, pieces, place, LENGTH, TASK.head)
    return changed(teacher=(*changed().teacher, str(place)))


def with_few_positions(changed, place):
    return changed({"student.max_sequence_length": 8})


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
    change, said, changed, diagnose, tmp_path
):
    with pytest.raises(ValueError, match=said):
        diagnose(change(changed, tmp_path / "model"))


def test_the_verb_prints_a_table_and_says_no_by_its_status(
    config, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = ["doctor", config]
    right = command(words)
    assert right.status == 0
    told = " ".join(right.out.split())
    assert "updates ok" in told
    assert "ruins" not in told
    wrong = command([*words, "--set", "student.max_sequence_length=8"])
    assert wrong.status == 2
    assert "8 positions" in wrong.err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_distillation_stops_at_unknown_words(
    table, changed, tmp_path, monkeypatch
):
    def stop(*unused, **more):
        raise KeyboardInterrupt

    foreign_words(table)
    settings = changed(table.place)
    with pytest.raises(RuntimeError, match="unknown words.*--force"):
        run(settings, tmp_path / "run")
    monkeypatch.setattr(keras.Model, "compile", stop)
    with pytest.raises(KeyboardInterrupt):
        run(settings, tmp_path / "run", force=True)


def test_pretraining_stops_at_unknown_words(tmp_path):
    write_encoder(tmp_path / "encoder")
    text, run = tmp_path / "text.txt", tmp_path / "run"
    text.write_text("\n".join(["ab cd ef", "ab schön"] * 20))
    words = ["pretrain", "--corpus", text, "--model", tmp_path / "encoder"]
    words += ["corpus.sequence_length=16", "--run-dir", run]
    told = command(words)
    assert told.status == 1
    assert "schön (20)" in " ".join((told.out + told.err).split())
    assert not run.exists()
