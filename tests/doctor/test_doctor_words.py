"""Words that a tokenizer has no token for, found before training."""

import numpy as np
import pytest
from kit import encoders
from kit.helpers import large_except
from kit.tasks import WORDS, write_encoder
from patients import (
    checks,
    copied,
    found,
    rows_of,
    tokenizer,
    write_rows,
)

from kdkit import doctor
from kdkit.data import (
    Examples,
    Questions,
    TokenExamples,
    encode,
    encode_questions,
    encode_tokens,
)
from kdkit.doctor import OK, RUINS, WARNING
from kdkit.doctor.diagnosis import diagnose
from kdkit.errors import RunError
from kdkit.models.families import FAMILIES
from kdkit.recipes import pretraining
from kdkit.runs import task_parts
from kdkit.settings import override
from kdkit.training import (
    CorpusSettings,
    ModelSettings,
    PretrainSettings,
    distill,
    pretrain,
)

TEXTS = [" ".join(WORDS[n % 4 : n % 4 + 4]) for n in range(200)]


@pytest.fixture(scope="module")
def pieces():
    return tokenizer()


def finding(texts, pieces):
    return doctor.unknown_words(
        {"train": doctor.texts_with_unknown(texts, pieces)}, pieces
    )


@pytest.mark.parametrize(
    ("unknown", "outcome"), [(0, OK), (1, OK), (2, WARNING), (100, RUINS)]
)
def test_examples_with_unknown_words_are_counted(unknown, outcome, pieces):
    """A warning from 1 % on, an error from half."""
    texts = [f"{text} café." for text in TEXTS[:unknown]] + TEXTS[unknown:]
    said = finding(texts, pieces)
    assert said.outcome == outcome
    share = {0: "0 %", 1: "0.5 %", 2: "1.0 %", 100: "50.0 %"}[unknown]
    assert f"{unknown} of 200 examples of train ({share})" in said.found
    assert (f"café ({unknown})" in said.found) == bool(unknown)
    assert ("vocabulary covers" in said.advice) == (outcome != OK)


@pytest.mark.parametrize("family", large_except([*FAMILIES], "bert", "albert"))
def test_every_familys_unknown_token_is_found(family):
    known, unknown = encoders.SENTENCES, ["a dull é", "good 7 7"]
    own = encoders.tokenizer(family)
    encoded = encode(Examples(([*known, *unknown],)), own, 64)
    is_affected = doctor.has_unknown(encoded, own)
    assert is_affected.tolist() == [False] * len(known) + [True] * 2
    said = finding([*known, *unknown], own)
    assert f"2 of {len(known) + 2} examples" in said.found
    assert "7 (2), é (1)" in said.found


def test_rows_of_every_kind_are_counted(pieces):
    pairs = Examples((["ab", "ab", "é"], ["cd", "é", "cd"]))
    assert doctor.has_unknown(encode(pairs, pieces, 16), pieces).tolist() == (
        [False, True, True]
    )
    questions = Questions(
        ["ab cd", "ab cd"], ["ef", "ef"], [("gh", "ij"), ("gh", "é")]
    )
    encoded = encode_questions(questions, pieces, 16, 2)
    assert doctor.has_unknown(encoded, pieces).tolist() == [False, True]
    words = TokenExamples(
        [("ab", "cd"), ("ab", "é ab", "é")],
        [np.zeros(2, "int32"), np.zeros(3, "int32")],
    )
    is_affected = doctor.has_unknown(encode_tokens(words, pieces, 16), pieces)
    assert is_affected.tolist() == [False, True]
    for rows, count in ((pairs, 2), (questions, 1), (words, 2)):
        examples = doctor.given_texts(rows)
        said = doctor.unknown_words(
            {"dev": (examples, np.ones(len(examples), bool))}, pieces
        )
        assert f"é ({count})" in said.found


@pytest.fixture
def foreign(made, settings, tmp_path):
    """Settings of a run that half of whose training rows are not English."""
    root = copied(made, tmp_path)
    rows, labels = rows_of(root, "train")
    rows = [f"{row} schön" if n % 2 else row for n, row in enumerate(rows)]
    write_rows(root / "SST-2", "train", rows, labels)
    return override(settings, [f"data.data_dir={root}"])


@pytest.mark.usefixtures("quickly")
def test_the_doctor_counts_the_rows_of_train_and_dev(foreign, tmp_path):
    findings = diagnose(foreign, tmp_path / "run")
    assert "unknown words" in checks(findings, RUINS)
    said = found(findings, "unknown words").found
    assert "20 of 40 examples of train (50.0 %)" in said
    assert "0 of 120 examples of dev (0 %)" in said
    assert "schön (20)" in said


@pytest.fixture
def stopped(monkeypatch):
    """Runs end where they would load their rows to train on."""

    def stop(*unused):
        raise KeyboardInterrupt

    monkeypatch.setattr(task_parts, "load_rows", stop)
    monkeypatch.setattr(task_parts, "log_model", stop)


@pytest.mark.usefixtures("stopped")
def test_distillation_stops_at_unknown_words(foreign, tmp_path):
    with pytest.raises(RunError, match="unknown words.*--force"):
        distill(foreign, tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        distill(foreign, tmp_path / "run", force=True)


def test_pretraining_stops_at_unknown_words(tmp_path, logged):
    write_encoder(tmp_path / "encoder")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(["ab cd ef", "ab schön"] * 20))
    settings = PretrainSettings(
        corpus=CorpusSettings((str(text),), sequence_length=16),
        model=ModelSettings(checkpoint=str(tmp_path / "encoder")),
        stages=pretraining.STAGES,
    )
    with pytest.raises(RunError, match="unknown words.*--force"):
        pretrain(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert "schön (20)" in " ".join(logged().split())
