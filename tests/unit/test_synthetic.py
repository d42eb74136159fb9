"""Generated data: sentences whose labels follow, and translations."""

import numpy as np
import pytest

from kdkit import data

CONTRASTS = ("although", "though", "while")
STRONG = ("truly", "very", "extremely", "deeply")
NEGATIONS = ("never", "hardly", "not at all", "by no means")
POSITIVE = (
    "superb", "clever", "moving", "charming", "fresh", "funny", "gripping",
    "brilliant", "warm", "smart", "elegant", "memorable",
)  # fmt: skip


@pytest.fixture(scope="module")
def splits():
    return {
        split: data.load_sentiment(split) for split in ("train", "dev", "test")
    }


def verdict(text):
    """The grammar read backwards: the class of a sentence, or of a clause."""
    text = text.removesuffix(" .")
    for contrast in CONTRASTS:
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
            if any(f" {word} " in clause for word in STRONG)
        ]
        return verdict((strong or clauses)[0])
    is_negated = any(f" {words} " in text for words in NEGATIONS)
    return int((text.split()[-1] in POSITIVE) != is_negated)


def test_sentiment_labels_follow_from_the_structure(splits):
    for examples in (splits["train"], splits["dev"]):
        expected = [verdict(text) for text in examples.texts[0]]
        np.testing.assert_array_equal(examples.labels, expected)


def test_sentiment_splits_share_no_sentence(splits):
    texts = [text for part in splits.values() for text in part.texts[0]]
    assert len(set(texts)) == len(texts) == 10_000
    other = data.generate_sentiment(2000, seed=99, split="train")
    assert not set(other.texts[0]) & set(splits["dev"].texts[0])


def test_sentiment_vocabulary_covers_every_word(splits, tokenizer):
    train = splits["train"].take(range(2000))
    encoded = data.encode(train, tokenizer, 32)
    assert tokenizer.token_to_id("[UNK]") not in encoded.token_ids
    # One piece a word: nothing is spelled.
    num_words = [len(text.split()) + 2 for text in train.texts[0]]
    np.testing.assert_array_equal(encoded.lengths, num_words)


def test_every_word_is_translated():
    pairs = list(data.generated_pairs())
    assert len(pairs) == 8000
    vocabularies = [
        {word for text in side for word in text.split()}
        for side in zip(*pairs, strict=True)
    ]
    same_in_both = {"a", ",", "."}
    assert vocabularies[0] & vocabularies[1] == same_in_both
