"""Batches are made ahead, with no thread that the end of a step waits for."""

import numpy as np
import pytest

from kdkit import data
from kdkit.models import MassTokenizer


@pytest.fixture
def rows(tokenizer):
    return data.encode(data.generate_sentiment(6, seed=0), tokenizer, 16)


@pytest.fixture
def packed():
    ids = np.arange(5 * 9, dtype="int32").reshape(5, 9) % 40
    return data.PackedCorpus(ids, 1, stride=8)


@pytest.fixture
def sentences(sentence_pieces):
    tokenizer = MassTokenizer(sentence_pieces)
    texts = ["a man is here", "two dogs"]
    return tokenizer, data.encode_sentences(texts, tokenizer, 16, "en")


def of_rows(rows):
    yield data.training_batches(rows, 2, seed=0)[0]
    yield data.mixed_training_batches(rows, rows, 1.0, 2, seed=0)[0]
    yield data.evaluation_batches(rows, 2)[0]
    yield data.in_parts(data.training_batches(rows, 4, seed=0)[0], 2)


def of_packed(packed, tokenizer):
    masker = data.Masker(data.Masking(), tokenizer)
    yield data.masked_training_batches(packed, masker, 2, seed=0)[0]
    yield data.masked_evaluation_batches(packed, masker, 2)
    yield data.plain_training_batches(packed, 2, seed=0)[0]
    yield data.plain_evaluation_batches(packed, 2)
    yield data.next_token_training_batches(packed, 2, seed=0)[0]
    yield data.next_token_evaluation_batches(packed, 2)


def of_sentences(sentences):
    tokenizer, encoded = sentences
    masker = data.SpanMasker(data.SpanMasking(), tokenizer)
    yield data.pair_batches(encoded, encoded, max_tokens=40, seed=0)[0]
    yield data.pair_evaluation_batches(encoded, encoded, max_tokens=40)
    yield data.span_batches(encoded, masker, max_tokens=40, seed=0)[0]
    yield data.span_evaluation_batches(encoded, masker, max_tokens=40)


def test_no_data_set_is_tuned_while_it_is_read(
    rows, packed, tokenizer, sentences
):
    data_sets = [
        *of_rows(rows),
        *of_packed(packed, tokenizer),
        *of_sentences(sentences),
    ]
    for data_set in data_sets:
        assert data_set.options().autotune.enabled is False
        assert len([*data_set.take(2)]) in (1, 2)
