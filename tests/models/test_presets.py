"""Presets have the papers' sizes."""

import keras
import pytest
from kit.helpers import large_except

from kdkit.models import PRESETS, BilstmConfig, MassConfig, student

# Embeddings, blocks and pooler of keras-hub's BertBackbone; embeddings and
# blocks of its GPT2Backbone; of a MASS both halves and one table of tokens; of
# a BiLSTM all but the head.
PARAMETERS = {
    "bert_base_en_uncased": 109_482_240,
    "tinybert_4_layer_en_uncased": 14_350_248,
    "tinybert_4_layer_wide_en_uncased": 52_779_264,
    "tinybert_6_layer_narrow_en_uncased": 16_634_616,
    "tinybert_6_layer_en_uncased": 66_955_008,
    "bert_3_layer_en_uncased": 45_691_392,
    "bert_6_layer_en_uncased": 66_955_008,
    "lightpaff_bert_3_layer_en_uncased": 25_611_264,
    "lightpaff_bert_3_layer_zh": 20_801_536,
    "lightpaff_bert_6_layer_zh": 30_258_688,
    "lightpaff_bert_3_layer_narrow_zh": 7_975_936,
    "gpt2_medium_en": 354_823_168,
    "lightpaff_gpt2_4_layer_en": 67_736_832,
    "lightpaff_llama3_4_layer_en": 102_367_488,
    "mass_6_layer": 210_178_048,
    "lightpaff_mass_6_4_layer": 42_144_768,
    "distilled_bilstm_en_uncased": 9_818_200,
}


def count_by_hand(config):
    """Parameters of a BERT, a BiLSTM or a MASS, from its sizes alone."""
    if isinstance(config, BilstmConfig):
        gates = 4 * config.units * (config.embedding_dim + config.units + 1)
        feed_forward = (2 * config.units + 1) * config.intermediate_dim
        rows = config.vocabulary_size * config.embedding_dim
        return rows + 2 * gates + feed_forward
    width, inner = config.hidden_dim, config.intermediate_dim
    norm = 2 * width
    if isinstance(config, MassConfig):
        rows = config.vocabulary_size + 2 * config.max_sequence_length
        attention = 4 * (width * width + width)
        feed_forward = width * inner + inner + inner * width + width
        encoder_block = attention + feed_forward + 2 * norm
        return (
            rows * width
            + 2 * norm
            + config.encoder_num_layers * encoder_block
            + config.decoder_num_layers * (encoder_block + attention + norm)
        )
    if config.family == "llama3":
        groups = width * config.num_key_value_heads // config.num_heads
        block = 2 * width * (width + groups) + 3 * width * inner + norm
        rows = 2 * config.vocabulary_size  # in and out
        return rows * width + width + config.num_layers * block
    rows = config.vocabulary_size + config.max_sequence_length
    attention = 4 * (width * width + width)
    feed_forward = width * inner + inner + inner * width + width
    block = attention + feed_forward + 2 * norm
    backbone = rows * width + norm + config.num_layers * block
    if config.family == "gpt2":
        return backbone
    segments, pooler = 2 * width, width * width + width
    return backbone + segments + pooler


def test_every_preset_is_pinned():
    assert PARAMETERS.keys() == PRESETS.keys()


@pytest.mark.parametrize("name", PRESETS)
def test_preset_has_the_pinned_number_of_parameters(name):
    assert count_by_hand(PRESETS[name].config) == PARAMETERS[name]


# LightPAFF prints whole millions: its 20M, of the same sizes, are 20.8 with the
# pooler and 512 positions.
ROUNDED = {"lightpaff_bert_3_layer_zh": 0.041}


@pytest.mark.parametrize("name", PRESETS)
def test_preset_is_within_three_percent_of_the_paper(name):
    paper = PRESETS[name].paper_parameters
    if paper is not None:
        tolerance = ROUNDED.get(name, 0.03)
        assert PARAMETERS[name] == pytest.approx(paper, rel=tolerance)


@pytest.mark.parametrize(
    "name",
    large_except(
        [
            "tinybert_4_layer_en_uncased",
            "lightpaff_gpt2_4_layer_en",
            "lightpaff_llama3_4_layer_en",
        ],
        "tinybert_4_layer_en_uncased",
    ),
)
def test_built_student_has_as_many_parameters_as_counted(name):
    backbone = student(name)
    assert backbone.count_params() == PARAMETERS[name]
    keras.backend.clear_session()
