"""MASS's encoder-decoder: sizes, positions, decoding, files."""

import keras
import numpy as np
import pytest
from kit.helpers import mass, with_random_weights

from kdkit import models
from kdkit.models import (
    MassBackbone,
    MassSeq2SeqLM,
)

SIZES = {
    "vocabulary_size": 30,
    "encoder_num_layers": 2,
    "decoder_num_layers": 1,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 12,
    "max_sequence_length": 12,
}


# As in the paper; kdkit's models share one vocabulary.
@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    made = MassSeq2SeqLM(MassBackbone(**SIZES))
    return with_random_weights(made)


@pytest.fixture
def inputs():
    rng = np.random.default_rng(1)
    return {
        "encoder_token_ids": rng.integers(4, 30, (3, 7)),
        "encoder_padding_mask": np.array([[1] * 7, [1] * 5 + [0] * 2, [1] * 7]),
        "decoder_token_ids": rng.integers(4, 30, (3, 5)),
        "decoder_padding_mask": np.ones((3, 5), "int32"),
        "decoder_positions": np.tile(np.arange(5), (3, 1)),
    }


def test_an_output_of_its_own_is_one_table_more():
    tied, own = (
        MassBackbone(**SIZES, tied_output=tied).count_params()
        for tied in (True, False)
    )
    assert own - tied == SIZES["vocabulary_size"] * SIZES["hidden_dim"]


def test_positions_say_where_the_decoders_tokens_stand(model, inputs):
    whole = model(inputs).numpy()
    moved = inputs | {"decoder_positions": inputs["decoder_positions"] + 3}
    assert np.abs(model(moved).numpy() - whole).max() > 0.1
    # A decoder's table moved by as much gives the old numbers.
    table = model.backbone.decoder_position_embedding.position_embeddings
    before = table.numpy()
    table.assign(np.roll(before, 3, axis=0))
    again = model(moved).numpy()
    table.assign(before)
    np.testing.assert_allclose(again, whole, atol=1e-5)


@pytest.mark.parametrize("width", [32, 112, 512])
def test_a_model_begins_with_a_decoder_that_hears_the_encoder(width):
    keras.utils.set_random_seed(0)
    model = mass(50, 2, 2, 2, width, 2 * width, max_sequence_length=10).backbone
    random = np.random.default_rng(0)
    whole = np.ones((8, 10), "int32")
    outputs = model(
        {
            "encoder_token_ids": random.integers(1, 50, (8, 10)),
            "encoder_padding_mask": whole,
            "decoder_token_ids": random.integers(1, 50, (1, 10)) * whole,
            "decoder_padding_mask": whole,
            "decoder_positions": np.arange(10) * whole,
        }
    )
    # Rows differ in their sources alone.
    states = np.array(outputs["decoder_sequence_output"])
    assert states.std(axis=0).mean() > 0.2 * states.std()


def test_generating_with_a_cache_is_the_best_token_again_and_again(
    model, inputs
):
    length = 9
    tokens = np.zeros((3, length), "int32")
    tokens[:, :2] = begun = [2, 7]
    for place in range(2, length):
        so_far = {
            "decoder_token_ids": tokens[:, :place],
            "decoder_padding_mask": np.ones((3, place), "int32"),
            "decoder_positions": np.tile(np.arange(place), (3, 1)),
        }
        logits = model(inputs | so_far).numpy()
        tokens[:, place] = logits[:, -1].argmax(-1)
    model.compile(sampler="greedy", run_eagerly=False)  # traced
    prompt = np.zeros((3, length), "int32")
    prompt[:, :2] = begun
    written = model.generate(
        {
            "encoder_token_ids": inputs["encoder_token_ids"],
            "encoder_padding_mask": inputs["encoder_padding_mask"],
            "decoder_token_ids": prompt,
            "decoder_padding_mask": np.arange(length)[np.newaxis] < [[2]] * 3,
        },
        stop_token_ids=None,
    )
    np.testing.assert_array_equal(written["decoder_token_ids"], tokens)


@pytest.fixture
def tokenizer(sentence_pieces):
    return sentence_pieces


def test_a_saved_model_has_its_languages(tokenizer, inputs, tmp_path):
    sizes = {**SIZES, "vocabulary_size": tokenizer.vocabulary_size()}
    model = with_random_weights(MassSeq2SeqLM(MassBackbone(**sizes)))
    languages = ("en", "de")
    models.save_model(
        models.LoadedModel(
            model, tokenizer, languages=languages, sequence_length=9
        ),
        tmp_path,
    )
    loaded = models.load_language_model(tmp_path)
    assert loaded.languages == languages
    assert loaded.sequence_length == 9
    np.testing.assert_array_equal(loaded.model(inputs), model(inputs))
    text = "ein mann"
    for one in (loaded.tokenizer, models.load_tokenizer(tmp_path)):
        assert list(np.array(one(text))) == list(np.array(tokenizer(text)))
