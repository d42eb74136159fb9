"""MASS with a vocabulary for each side: texts, presets, ids, sizes."""

import io

import keras
import keras_hub
import numpy as np
import pytest
import sentencepiece
from helpers import ENGLISH, GERMAN, large_except, with_random_weights

from kdkit import Distiller, Objective, losses
from kdkit.errors import UsageError
from kdkit.models import (
    MassSeq2SeqLM,
    MassSeq2SeqLMPreprocessor,
    MassTokenizer,
    TokenizerPair,
    check_same_ids,
    load_language_model,
    load_saved_tokenizer,
    load_tokenizer,
    save_language_model,
    save_tokenizer,
    student,
    student_config,
    train_sentence_pieces,
)

PRESET = "lightpaff_mass_6_4_layer"
SMALL = {
    "encoder_num_layers": 1,
    "decoder_num_layers": 1,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 12,
    "max_sequence_length": 12,
}


@pytest.fixture(scope="module")
def pieces():
    """Two SentencePiece models, whose special tokens have other ids."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(GERMAN),
        model_writer=model,
        vocab_size=285,
        model_type="bpe",
        byte_fallback=True,
        pad_id=3,
        unk_id=2,
        bos_id=1,
        eos_id=0,
        pad_piece="<pad>",
        control_symbols=["<mask>", "<de>"],
        minloglevel=3,
    )
    return train_sentence_pieces(ENGLISH, 290, ["en"]).proto, model.getvalue()


@pytest.fixture
def pair(pieces):
    # Of each test its own: TensorFlow forgets it when sessions are cleared.
    return TokenizerPair(*map(MassTokenizer, pieces))


def make_model(pair, seed=0, **changes):
    keras.utils.set_random_seed(seed)
    sizes = {**SMALL, **pair.vocabulary_sizes, **changes}
    return with_random_weights(MassSeq2SeqLM(student(PRESET, **sizes)))


def make_preprocessor(pair, *lengths_and_languages):
    return MassSeq2SeqLMPreprocessor(
        pair.encoder, *lengths_and_languages, decoder_tokenizer=pair.decoder
    )


def padded(tokens, length, tokenizer):
    return [(tokens + [tokenizer.pad_token_id] * length)[:length]]


def test_each_side_is_read_by_its_own_vocabulary(pair):
    preprocessor = make_preprocessor(pair, 9, 8, "en", "de")
    texts = {"encoder_text": ["a dog"], "decoder_text": ["ein hund"]}
    x, y, weight = preprocessor(texts)
    encoder, decoder = pair.encoder, pair.decoder
    source = [
        encoder.token_to_id("<en>"),
        *np.array(encoder("a dog")),
        encoder.end_token_id,
    ]
    begun = [decoder.token_to_id("<de>"), *np.array(decoder("ein hund"))]
    target = [*begun, decoder.end_token_id]
    expected = {
        "encoder_token_ids": padded(source, 9, encoder),
        "decoder_token_ids": padded(target, 8, decoder),
        "decoder_positions": [list(range(8))],
    }
    for name, value in expected.items():
        np.testing.assert_array_equal(x[name], value)
    np.testing.assert_array_equal(y, padded(target[1:], 8, decoder))
    np.testing.assert_array_equal(weight, [np.arange(8) < len(target) - 1])
    prompt = preprocessor.generate_preprocess(texts)
    np.testing.assert_array_equal(
        prompt["decoder_token_ids"], padded(begun, 8, decoder)
    )
    assert preprocessor.generate_postprocess(prompt) == ["ein hund"]


@pytest.mark.parametrize("is_reversed", large_except([False, True], True))
def test_a_preset_keeps_both_vocabularies(pair, tmp_path, is_reversed):
    languages = ("en", "de")
    if is_reversed:  # of a preset, its files exchanged
        kept = make_preprocessor(pair)
        pair = TokenizerPair(kept.decoder_tokenizer, kept.tokenizer)
        languages = ("de", "en")
    model = make_model(pair)
    model.preprocessor = make_preprocessor(pair, 9, 8, *languages)
    place = tmp_path / "preset"
    model.save_to_preset(str(place))
    loaded = keras_hub.models.Seq2SeqLM.from_preset(str(place))
    for name in ("tokenizer", "decoder_tokenizer"):
        before, after = (
            getattr(one.preprocessor, name).get_vocabulary()
            for one in (model, loaded)
        )
        assert before == after
    for one in (model, loaded):
        one.compile(sampler="greedy", run_eagerly=True)
    texts = ["a dog", "two men"]
    assert loaded.generate(texts) == model.generate(texts)
    check_same_ids(pair, load_tokenizer(place))
    check_same_ids(pair, load_language_model(place).tokenizer)


def test_what_is_written_ends_as_the_decoders_vocabulary_has_it(pair):
    model = make_model(pair)
    model.preprocessor = make_preprocessor(pair, 9, 8, "en", "de")
    model.compile(sampler="greedy", run_eagerly=True)
    calls = []
    step = model.generate_step
    model.generate_step = lambda x, stop_token_ids: (
        calls.append(stop_token_ids) or step(x, stop_token_ids)
    )
    model.generate("a dog")
    assert calls == [[pair.decoder.end_token_id]]
    assert pair.decoder.end_token_id != pair.encoder.end_token_id


def test_both_are_kept_without_a_model(pair, tmp_path):
    save_tokenizer(pair, tmp_path / "tokenizer")
    check_same_ids(pair, load_saved_tokenizer(tmp_path / "tokenizer"))
    check_same_ids(pair, load_tokenizer(tmp_path))


def test_other_ids_are_told_with_their_side(pair):
    joint = pair.encoder
    with pytest.raises(UsageError) as caught:
        check_same_ids(pair, joint)
    message = str(caught.value)
    assert "on the decoder's side vocabularies differ, teacher of 285" in (
        message
    )
    assert "on the decoder's side end_token_id differs, teacher 0" in message
    assert "encoder's side" not in message
    check_same_ids(TokenizerPair(joint, joint), joint)


def test_a_distiller_compares_both_sides(pair):
    other = TokenizerPair(pair.decoder, pair.decoder)
    models = []
    for tokenizers in (pair, other):
        model = make_model(tokenizers)
        model.preprocessor = make_preprocessor(tokenizers)
        models.append(model)
    with pytest.raises(UsageError, match="on the encoder's side"):
        Distiller(*models, [Objective(losses.LogitKLDivergence())])


def test_a_table_with_too_few_rows_is_refused(pair, tmp_path):
    model = make_model(pair, decoder_vocabulary_size=270)
    with pytest.raises(UsageError, match="285 pieces, 270 embeddings"):
        save_language_model(model, pair, tmp_path / "preset", 8)


def test_both_tables_begin_with_numbers_of_their_own():
    sizes = {"vocabulary_size": 20, "decoder_vocabulary_size": 20}
    backbone = student(PRESET, **SMALL, **sizes)
    first, second = (
        np.asarray(layer.embeddings)
        for layer in (
            backbone.encoder_token_embedding,
            backbone.token_embedding,
        )
    )
    assert np.abs(first - second).max() > 0


def test_a_vocabulary_has_tokens():
    with pytest.raises(UsageError, match="decoder_vocabulary_size must be"):
        student_config(PRESET, decoder_vocabulary_size=0)
