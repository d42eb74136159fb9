"""Vocabularies of a student's own: trained word pieces, and their vectors."""

import numpy as np
import pytest
import tokenizers
from keras import ops
from kit.encoders import SENTENCES, WORD_PIECES, encoder, tokenizer

from kdkit import models
from kdkit.models.families import family_of
from kdkit.models.ruled_tokenizers import plain_tokenizer

TEXTS = [
    *SENTENCES,
    "Der Plot ist öde, die Besetzung schwach.",
    "Élève très doué : l'intrigue est bonne",
    "日本の映画",
] * 3  # fmt: skip
SIZE = 110


def ids_of(made, text):
    return [*map(int, made(text))]


def test_word_pieces_have_the_asked_size_and_lose_no_accent():
    made = models.train_word_pieces(TEXTS, SIZE)
    pieces = made.get_vocabulary()
    assert len(set(pieces)) == made.vocabulary_size() == SIZE
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for text in TEXTS:
        found = "".join(map(made.id_to_token, ids_of(made, text)))
        assert found.replace("##", "") == text.lower().replace(" ", "")
    assert ids_of(made, "ode") != ids_of(made, "öde")


def test_word_pieces_have_the_same_ids_in_other_libraries():
    made = models.train_word_pieces(TEXTS, SIZE)
    other = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            {piece: id for id, piece in enumerate(made.get_vocabulary())},
            unk_token="[UNK]",
        )
    )
    other.normalizer = tokenizers.normalizers.BertNormalizer(
        strip_accents=False, lowercase=True
    )
    other.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    ours, keras_hub = (
        [[*map(int, ids)] for ids in one(TEXTS)]
        for one in (made, plain_tokenizer(made))
    )
    assert ours == [one.ids for one in other.encode_batch(TEXTS)]
    # Without kdkit the ids are the same: accents stay there, too.
    assert keras_hub == ours


def table_of(embedder):
    backbone = models.backbone_of(embedder)
    layer = family_of(backbone).token_embedding(backbone)
    return ops.convert_to_numpy(layer.embeddings)


@pytest.mark.parametrize("family", ["bert", "distil_bert"])
def test_tokens_start_from_the_vectors_of_their_pieces(family):
    read = tokenizer(family)
    size = read.vocabulary_size()
    old = models.make_embedder(
        encoder(family, None, vocabulary_size=size), models.Pooling("cls")
    )
    own = models.train_word_pieces(TEXTS, SIZE)
    new = models.with_vocabulary(old, read, own)
    before, after = table_of(old), table_of(new)
    assert after.shape == (SIZE, before.shape[1])
    for row, token in enumerate(own.get_vocabulary()):
        if token in WORD_PIECES:
            expected = before[read.token_to_id(token)]
        else:
            ids = read.tokenize(token.removeprefix("##"))
            expected = before[np.array(ids)].mean(axis=0)
        np.testing.assert_allclose(after[row], expected, atol=1e-6)
    assert models.pooling_of(new) == models.pooling_of(old)
    same = [
        np.array_equal(one, other)
        for one, other in zip(new.weights, old.weights, strict=True)
        if one.shape == other.shape
    ]
    assert len(same) == len(old.weights) - 1
    assert all(same)
