"""Generated sentiment sentences."""

import numpy as np
import pytest

from kdkit.data import encode, generate_sentiment, synthetic


@pytest.fixture(scope="module")
def train():
    return synthetic.load_sentiment("train")


@pytest.fixture(scope="module")
def dev():
    return synthetic.load_sentiment("dev")


def verdict(text):
    """The grammar read backwards: the class of a sentence, or of a clause."""
    text = text.removesuffix(" .")
    for contrast in synthetic.CONTRASTS:
        if text.startswith(f"{contrast} "):
            return verdict(text.split(" , ")[1])
        if f" , {contrast} " in text:
            return verdict(text.split(" , ")[0])
    if " , but " in text:
        return verdict(text.split(" , but ")[1])
    if " and " in text:
        clauses = text.split(" and ")
        strong = [
            clause
            for clause in clauses
            if any(f" {word} " in clause for word in synthetic.STRONG)
        ]
        return verdict((strong or clauses)[0])
    is_negated = any(f" {words} " in text for words in synthetic.NEGATIONS)
    is_positive = text.split()[-1] in synthetic.POSITIVE
    return int(is_positive != is_negated)


def test_sentiment_labels_follow_from_the_structure(train, dev):
    for examples in (train, dev):
        expected = [verdict(text) for text in examples.texts[0]]
        np.testing.assert_array_equal(examples.labels, expected)


def test_sentiment_splits_share_no_sentence(train, dev):
    test = synthetic.load_sentiment("test")
    texts = [text for part in (train, dev, test) for text in part.texts[0]]
    assert len(set(texts)) == len(texts) == 10_000
    other = generate_sentiment(2000, seed=99, split="train")
    assert not set(other.texts[0]) & set(dev.texts[0])


def test_sentiment_vocabulary_covers_every_word(train, tokenizer):
    encoded = encode(train, tokenizer, 32)
    unknown = tokenizer.token_to_id("[UNK]")
    assert unknown not in encoded.token_ids
    # one piece a word: nothing is spelled
    num_words = [len(text.split()) + 2 for text in train.texts[0]]
    np.testing.assert_array_equal(encoded.lengths, num_words)
    assert encoded.lengths.max() <= 24
