"""Rules for texts: saved with every kind of tokenizer, and checked."""

import json

import keras_hub
import numpy as np
import pytest

from kdkit.models import (
    convert_tokenizer,
    load_classifier,
    load_encoder,
    save_encoder,
    student,
    tokenizer_rules,
)
from kdkit.models.families import FAMILIES, family_of
from kdkit.models.ruled_tokenizers import plain_tokenizer, with_rules
from kdkit.models.text_rules import (
    AddedToken,
    bert_rules,
    read_rules,
)

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe", "strasse"]
PIECES += ["straße", "not", "good", ".", "new tok"]
RULES = bert_rules(True, added_tokens=(AddedToken("new tok", 11, True),))
TEXT = "Café Straße new tok not\u00a0good"
IDS = [5, 7, 11, 8, 9]
SIZES = {
    "num_layers": 1,
    "hidden_dim": 4,
    "num_heads": 1,
    "intermediate_dim": 4,
    "vocabulary_size": len(PIECES),
    "max_sequence_length": 8,
}


@pytest.fixture
def tokenizer():
    return with_rules(keras_hub.tokenizers.BertTokenizer(PIECES), RULES)


@pytest.fixture
def preset(tokenizer, tmp_path):
    """A saved encoder with a tokenizer that has rules."""
    save_encoder(student(SIZES), tokenizer, tmp_path / "preset")
    return tmp_path / "preset"


def test_rules_are_read_as_they_were_written():
    assert read_rules(json.loads(json.dumps(RULES.to_json()))) == RULES
    assert bert_rules(True) == bert_rules(True, strip_accents=True)
    assert bert_rules(False) == bert_rules(False, strip_accents=False)


def test_a_tokenizer_with_rules_is_of_its_family(tokenizer):
    assert list(tokenizer([TEXT])[0]) == IDS
    assert family_of(tokenizer) is FAMILIES["bert"]
    plain = plain_tokenizer(tokenizer)
    assert type(plain) is keras_hub.tokenizers.BertTokenizer
    assert plain.get_vocabulary() == PIECES
    assert plain.lowercase
    assert plain.strip_accents
    assert type(with_rules(tokenizer, None)) is type(plain)


def test_inputs_of_every_shape_are_tokenized(tokenizer):
    assert np.array(tokenizer(TEXT)).tolist() == IDS
    assert np.array(tokenizer.tokenize([[TEXT], [TEXT]])).tolist() == [
        [IDS],
        [IDS],
    ]
    assert tokenizer(["", "not"]) == [[], [8]]


@pytest.mark.parametrize("family", ["bert", "distil_bert", "electra"])
def test_other_families_keep_the_rules(family, tokenizer):
    other = convert_tokenizer(FAMILIES[family], tokenizer)
    assert isinstance(other, FAMILIES[family].tokenizer)
    assert tokenizer_rules(other) == RULES
    assert list(other([TEXT])[0]) == IDS


def test_a_keras_file_holds_a_tokenizer_with_its_rules(tokenizer, tmp_path):
    model = student(SIZES, num_classes=2)
    model.preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=8
    )
    model.save(tmp_path / "model.keras")
    again = load_classifier(tmp_path / "model.keras", 2).tokenizer
    assert tokenizer_rules(again) == RULES
    assert list(again([TEXT])[0]) == IDS


@pytest.mark.parametrize("lowercase", [True, False])
def test_named_presets_have_the_rules_of_their_papers(lowercase, monkeypatch):
    """A preset that is downloaded says whether it is lower-cased."""
    downloaded = keras_hub.tokenizers.BertTokenizer(PIECES, lowercase)
    monkeypatch.setattr(
        keras_hub.models.Backbone,
        "from_preset",
        lambda name, **kwargs: student(SIZES),
    )
    monkeypatch.setattr(
        keras_hub.tokenizers.Tokenizer,
        "from_preset",
        lambda name: downloaded,
    )
    _, tokenizer = load_encoder("bert_tiny_en_uncased")
    assert tokenizer_rules(tokenizer) == bert_rules(lowercase)
