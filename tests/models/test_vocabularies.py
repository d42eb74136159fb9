"""Vocabularies that are trained, read from files, or swapped in a model."""

import json

import keras_hub
import numpy as np
import pytest
from kit.encoders import SENTENCES, WORD_PIECES, encoder, tokenizer
from kit.references import reference

from kdkit import models

TEXTS = [
    *SENTENCES,
    "Der Plot ist öde, die Besetzung schwach.",
    "Élève très doué : l'intrigue est bonne",
    "日本の映画",
] * 3  # fmt: skip
SIZE = 110
ENGLISH = ["the cast is good and the plot is superb", "a dull plot", "the end"]


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


def test_word_pieces_have_the_same_ids_in_other_libraries(tmp_path):
    """In tokenizers and, from a preset, in keras-hub: accents stay there."""
    tokenizers = reference("tokenizers")
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
    model = encoder("bert", None, vocabulary_size=SIZE)
    models.save_model(models.LoadedModel(model, made), tmp_path)
    plain = keras_hub.tokenizers.Tokenizer.from_preset(str(tmp_path))
    expected = [one.ids for one in other.encode_batch(TEXTS)]
    for one in (made, plain):
        assert [ids_of(one, text) for text in TEXTS] == expected


def test_byte_pairs_spell_any_text():
    made = models.train_byte_pairs(ENGLISH, 260)
    assert made.vocabulary_size() == 260
    strange = "naïve 猫\n <unk>"
    assert made.detokenize(made(strange)) == strange
    # Behind all others: keras-hub pads with the first.
    assert made.end_token_id == 259
    # The most frequent pairs are one token.
    assert len(made("the the")) < len("the the")


@pytest.mark.parametrize(
    ("vocabulary", "merges"),
    [
        ("gpt2-encoder.json", "gpt2-vocab.bpe"),
        ("vocab.json", "merges.txt"),
        ("vocabulary.json", "merges.txt"),
    ],
)
def test_byte_pairs_are_read_as_they_are_published(
    vocabulary, merges, tmp_path
):
    ids = {"<|endoftext|>": 0, "a": 1, "b": 2, "ab": 3}
    (tmp_path / vocabulary).write_text(json.dumps(ids))
    (tmp_path / merges).write_text("#version: 0.2\na b\n")
    assert ids_of(models.load_tokenizer(tmp_path / vocabulary), "abb") == [3, 2]


def test_sentence_pieces_spell_everything_and_have_languages(sentence_pieces):
    made = sentence_pieces
    assert made.vocabulary_size() == 300
    assert made.languages == ("en", "de")
    assert made.language_token_id("de") == made.token_to_id("<de>")
    assert made.language_token_id(None) == made.start_token_id
    with pytest.raises(ValueError, match=r"'fr'.*en, de"):
        made.language_token_id("fr")
    text = "ein mann schläft 猫"
    assert made.detokenize(made(text)).strip() == text
    # A text cannot spell a special token.
    special = set(made.special_token_ids)
    assert not special & set(ids_of(made, "<mask> <en> </s>"))


def test_unigrams_spell_everything_too():
    made = models.train_sentence_pieces(TEXTS, 270, (), "unigram")
    text = "ein mann schläft 猫"
    assert made.detokenize(made(text)).strip() == text
    assert made.vocabulary_size() == 270


@pytest.mark.parametrize("family", ["bert", "distil_bert"])
def test_tokens_start_from_the_vectors_of_their_pieces(family):
    read = tokenizer(family)
    backbone = encoder(family, None, vocabulary_size=read.vocabulary_size())
    old = models.make_embedder(backbone, models.Pooling("cls"))
    pieces = [*WORD_PIECES[:5], "plots", "duller", "good", "##s", "öde"]
    own = models.word_piece_tokenizer(pieces, lowercase=True)
    new = models.with_vocabulary(old, read, own)
    before, after = map(models.token_embeddings, (old, new))
    assert after.shape == (len(pieces), before.shape[1])
    assert len(ids_of(read, "plots")) == 2
    for row, token in enumerate(own.get_vocabulary()):
        if token in WORD_PIECES:
            expected = before[read.token_to_id(token)]
        else:
            ids = ids_of(read, token.removeprefix("##"))
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
