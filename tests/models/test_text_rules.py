"""Text rules (goes with models/text_rules.py and ruled_tokenizers.py)."""

import json

import keras_hub
import pytest
from kit.encoders import WORD_PIECES

from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.text_rules import (
    AddedToken,
    bert_rules,
    read_normalizer,
    read_rules,
)


def test_rules_are_read_as_they_were_written():
    rules = bert_rules(True, added_tokens=(AddedToken("new tok", 11, True),))
    assert read_rules(json.loads(json.dumps(rules.to_json()))) == rules
    assert bert_rules(True) == bert_rules(True, strip_accents=True)
    assert bert_rules(False) == bert_rules(False, strip_accents=False)


@pytest.mark.parametrize(
    ("step", "named"),
    [
        ({"type": "Nmt"}, "NFKD"),
        ({"type": "Replace", "pattern": {"Regex": "a+"}}, "Regex"),
    ],
)
def test_steps_that_tensorflow_reads_differently_are_refused(step, named):
    with pytest.raises(ValueError, match=named):
        read_normalizer(step, "x")


def test_an_added_token_has_no_other_tokens_id():
    rules = bert_rules(True, added_tokens=(AddedToken("film", 5),))
    tokenizer = keras_hub.tokenizers.BertTokenizer(WORD_PIECES)
    with pytest.raises(ValueError, match="film"):
        with_rules(tokenizer, rules)
