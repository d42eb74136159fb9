"""kdkit doctor: which teachers it runs, and which not."""

import dataclasses

import keras
import pytest
from hugging_face import add_head, write_checkpoint
from kinds import VOCABULARY
from patients import (
    HEAD,
    LENGTH,
    NUM_WORDS,
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
from kdkit.doctor import NOTE, OK, RUINS, diagnosis
from kdkit.doctor.diagnosis import diagnose
from kdkit.errors import RunError
from kdkit.models.tokenizers import save_tokenizer
from kdkit.settings import override
from kdkit.training import distill

pytestmark = pytest.mark.usefixtures("quickly")


@pytest.mark.large
def test_a_teacher_that_gives_probabilities(made, settings, tmp_path):
    teacher = models.load_classifier(made / "teacher", HEAD)
    shares = keras.ops.softmax(teacher.model.output)
    place = tmp_path / "teacher.keras"
    keras.Model(teacher.model.input, shares).save(place)
    save_tokenizer(teacher.tokenizer, tmp_path / "tokenizer")
    settings = override(settings, [f"teacher={place}"])
    findings = diagnose(
        dataclasses.replace(settings, stages=settings.stages[1:]),
        tmp_path / "run",
    )
    # The second: a Distiller of this teacher would be refused.
    assert checks(findings, RUINS) == {"teacher logits", "layers"}


def test_a_teacher_that_was_not_fine_tuned(settings, tmp_path):
    place = tmp_path / "encoder"
    encoder(2, 16).save_to_preset(str(place))
    tokenizer().save_to_preset(str(place))
    findings = diagnose(
        dataclasses.replace(settings, teacher=str(place)), tmp_path / "run"
    )
    assert checks(findings, RUINS) == {"teacher"}
    said = next(one.found for one in findings if one.outcome == RUINS)
    assert "head for task 'sst2' is untrained" in said
    assert "its class ends with ForSequenceClassification" in said
    assert checks(findings, NOTE) == set()  # no run will train it
    assert "layers" in checks(findings, OK)


def test_a_teacher_of_other_classes(settings, tmp_path):
    """A Hugging Face classifier, whose encoder could still be a student's."""
    write_checkpoint(tmp_path, "bert")
    add_head(tmp_path, "bert", num_classes=3)
    findings = diagnose(
        dataclasses.replace(settings, teacher=str(tmp_path)), tmp_path / "run"
    )
    (said,) = (one.found for one in findings.ruinous if one.check == "teacher")
    assert "has 3 classes. The task has 2." in said
    assert "teacher" not in checks(findings, NOTE)
    # Its vocabulary is not that of the rows.
    assert checks(findings, RUINS) == {"teacher", "unknown words"}
    words = ["evaluate", str(tmp_path), "--task", "sst2"]
    assert main([*words, "--data-dir", settings.data.data_dir]) == 2


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
    assert checks(findings, NOTE) == {"teacher accuracy", "time"}
    assert "Not measured: see token table" in found(findings, "time").found
    assert "student size" in checks(findings, OK)
    with pytest.raises(RunError, match="token table"):
        distill(settings, tmp_path / "run")


def test_a_teacher_of_fewer_positions_than_a_row_has_is_not_asked(
    timed, made, settings, tmp_path
):
    """Also where there is no student to compare."""
    root = copied(made, tmp_path)
    for split in ("train", "dev"):
        rows, labels = rows_of(root, split)
        rows = [f"{row} {row} {row}" for row in rows]
        write_rows(root / "SST-2", split, rows, labels)
    settings = override(settings, [f"data.data_dir={root}"])
    long = ["data.sequence_length=32", "student.max_sequence_length=32"]
    for further, ruined in (
        ([], {"longest row"}),
        (["student.num_heads=3"], {"longest row", "student"}),
    ):
        changed = override(settings, long + further)
        findings = diagnose(changed, tmp_path / "run")
        assert checks(findings, RUINS) == ruined
        assert "16 positions" in found(findings, "longest row").found
        said = found(findings, "teacher accuracy")
        assert said.outcome == NOTE
        assert "see longest row" in said.found


def test_a_second_teacher_is_checked_too(
    settings, tmp_path, monkeypatch, load_once
):
    """One that reads the same ids as other words."""
    pieces = [*VOCABULARY[:5], *VOCABULARY[:4:-1]]

    def load(place, task):
        loaded = load_once(settings.teacher, task)
        if place == "second":
            return dataclasses.replace(loaded, tokenizer=tokenizer(pieces))
        return loaded

    monkeypatch.setattr(diagnosis, "load_teacher", load)
    findings = diagnose(
        dataclasses.replace(settings, more_teachers=("second",)),
        tmp_path / "run",
    )
    assert checks(findings, RUINS) == {"vocabulary 2"}
    assert "Use teachers of one" in found(findings, "vocabulary 2").advice
    assert "label order 1" in checks(findings, OK)
    # Its answers would be those to other words.
    assert found(findings, "teacher 2 accuracy").outcome == NOTE
    assert "label order 2" not in {one.check for one in findings}


def test_a_second_teacher_of_fewer_words_is_not_asked(
    timed, made, settings, tmp_path
):
    """It would stop at the first row with one of the others."""
    second = tmp_path / "teacher"
    few = NUM_WORDS // 2
    model = models.add_head(encoder(2, 16, num_words=few), HEAD)
    words = tokenizer(VOCABULARY[:few])
    models.save_preset(model, words, second, LENGTH, HEAD)
    findings = diagnose(
        dataclasses.replace(settings, more_teachers=(str(second),)),
        tmp_path / "run",
    )
    assert checks(findings, RUINS) == {"vocabulary 2"}
    assert f"Of {NUM_WORDS} ids of the teacher {NUM_WORDS - few} are" in (
        found(findings, "vocabulary 2").found
    )
    assert checks(findings, NOTE) == {"teacher 2 accuracy", "time"}
