"""Nearest words: cosine, the word itself excluded, the order of ties."""

import keras_hub
import numpy as np
import pytest
from kit.helpers import bert

from kdkit.augmentation.candidates import PieceNeighbors, VectorNeighbors
from kdkit.errors import UsageError

WORDS = [f"word{number}" for number in range(40)]


@pytest.fixture(scope="module")
def vectors():
    return (
        np.random.default_rng(0).normal(size=(40, 6))
        * np.arange(1, 41)[:, None]
    )


def expected(vectors, number, count):
    lengths = np.linalg.norm(vectors, axis=1)
    cosines = vectors @ vectors[number] / lengths / lengths[number]
    order = [other for other in np.argsort(-cosines) if other != number]
    return [WORDS[other] for other in order[:count]]


def test_neighbors_are_the_nearest_by_cosine(vectors):
    found = VectorNeighbors(WORDS, vectors, 5)(["word3", "word7", "word3"])
    assert found == {
        "word3": expected(vectors, 3, 5), "word7": expected(vectors, 7, 5)
    }  # fmt: skip


def test_a_word_is_never_its_own_neighbor(vectors):
    """As in TinyBERT's code, which sets its distance to -inf and then sorts."""
    near = VectorNeighbors(WORDS, vectors, len(WORDS) - 1)
    found = near(["word3"])["word3"]
    assert found == expected(vectors, 3, len(WORDS))
    assert sorted(["word3", *found]) == sorted(WORDS)
    twice = np.repeat(vectors[:1], 2, axis=0)  # the same vector twice
    assert VectorNeighbors(["a", "b"], twice, 1)(["a", "b"]) == {
        "a": ["b"], "b": ["a"]
    }  # fmt: skip


def test_unknown_words_have_none(vectors):
    near = VectorNeighbors(WORDS, vectors, 5)
    assert near(["nothing", "word1"]).keys() == {"word1"}
    assert near([]) == {}


def test_vectors_of_other_words_have_neighbors_too(vectors):
    near = VectorNeighbors(WORDS, vectors, 1)
    assert near.of(3 * vectors[[4, 9]]) == [["word4"], ["word9"]]


def test_too_few_words_are_refused():
    with pytest.raises(UsageError, match="no 2 neighbours"):
        VectorNeighbors(["a", "b"], np.eye(2), 2)


def test_words_without_vectors_are_where_their_pieces_are():
    model = bert(num_classes=None)  # of 20 tokens
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += [f"w{letter}" for letter in "abcdefghijk"]
    pieces += ["gri", "##p", "7", ","]
    tokenizer = keras_hub.tokenizers.BertTokenizer(pieces, lowercase=True)
    table = np.asarray(model.token_embedding.embeddings)
    whole = [i for i, piece in enumerate(pieces) if piece.isalpha()]
    mean = table[[pieces.index("gri"), pieces.index("##p")]].mean(axis=0)
    cosines = (table @ mean) / np.linalg.norm(table, axis=1)
    nearest = sorted(whole, key=lambda number: -cosines[number])[:3]

    def known(words):
        return {word: ["x"] for word in words if word == "wa"}

    near = PieceNeighbors(model, tokenizer, 3, known)
    assert near(["grip", "wa", "grip"]) == {
        "wa": ["x"],
        "grip": [pieces[number] for number in nearest],
    }
    assert near([]) == {}
