"""Students: the papers' sizes, classes of families, weights of a teacher."""

import keras
import numpy as np
import pytest
from kit.encoders import DECODERS, ENCODERS, blocks_of, classifier_class
from kit.helpers import assert_same_weights, batch, bert, large_except

from kdkit import models
from kdkit.models import (
    PRESETS,
    BilstmConfig,
    Head,
    MassConfig,
    initialize_from_teacher,
    student,
)
from kdkit.models.architectures import architecture
from kdkit.models.heads import copy_head

TINY = {
    "num_layers": 2,
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 16,
    "vocabulary_size": 20,
    "max_sequence_length": 12,
}
FAMILIES = (*ENCODERS, *DECODERS)


@pytest.mark.parametrize("family", ENCODERS)
def test_a_student_of_a_family_has_its_class_and_sizes(family):
    model = student(TINY, family=family, num_classes=3, dropout=0.3)
    assert isinstance(model, classifier_class(family))
    assert models.backbone_of(model).dropout == 0.3
    sizes = architecture(model)
    for name in ("num_layers", "hidden_dim", "num_heads", "intermediate_dim"):
        assert sizes[name] == TINY[name]
    assert len(models.token_embeddings(model)) == 20
    if family != "deberta_v3":  # whose positions are relative
        assert models.num_positions(model) == 12


def test_width_of_the_embeddings_is_of_albert_and_electra_alone():
    for width, sizes in ((8, {}), (4, {"embedding_dim": 4})):
        made = student({**TINY, "family": "albert"}, **sizes)
        assert models.token_embeddings(made).shape[1] == width


def assert_same(layer, source):
    for weight, expected in zip(
        layer.get_weights(), source.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(weight, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_starts_from_its_own(family):
    config = {**TINY, "family": family}
    teacher = student({**config, "num_layers": 3})
    backbone = initialize_from_teacher(student(config), teacher, layers=[1, 3])
    blocks, sources = blocks_of(backbone), blocks_of(teacher)
    assert_same(blocks[0], sources[0])
    assert_same(blocks[1], sources[2])
    assert_same(backbone.token_embedding, teacher.token_embedding)


@pytest.mark.parametrize("family", large_except(ENCODERS, "bert", "electra"))
def test_all_layers_of_a_family_make_the_same_encoder(family):
    """Nothing of the encoder is forgotten."""
    config = {**TINY, "family": family}
    teacher = student(config)
    assert_same(
        initialize_from_teacher(student(config), teacher, [1, 2]), teacher
    )


def test_a_student_that_does_not_fit_is_unchanged():
    teacher, model = student(TINY), student({**TINY, "intermediate_dim": 3})
    before = model.get_weights()
    with pytest.raises(ValueError, match="transformer_layer_0"):
        initialize_from_teacher(model, teacher, [1, 2])
    assert_same_weights(model.get_weights(), before)


def test_a_distil_bert_starts_from_a_bert():
    teacher = student({**TINY, "num_layers": 4}, num_classes=2)
    model = student(TINY, family="distil_bert", num_classes=2)
    initialize_from_teacher(model, teacher, layers=[1, 3])
    source, ours = teacher.backbone, model.backbone
    assert_same(ours.transformer_layers[1], source.transformer_layers[2])
    assert_same(ours.embeddings.position_embedding, source.position_embedding)
    assert_same(ours.embeddings_layer_norm, source.embeddings_layer_norm)


def test_a_student_of_chosen_blocks_owns_copies_of_them():
    teacher = bert(num_layers=3)
    made = models.copy_blocks(teacher, (1, 3)).transformer_layers[1]
    source = teacher.backbone.transformer_layers[2]
    assert_same(made, source)
    before = source.get_weights()[0]
    made.trainable_weights[0].assign_add(np.ones_like(before))
    np.testing.assert_array_equal(source.get_weights()[0], before)


@pytest.mark.parametrize("kind", models.HEADS)
def test_a_student_of_all_blocks_and_the_head_is_its_teacher(kind):
    head = Head(kind, 2)
    teacher = models.add_head(bert(num_layers=2, num_classes=None), head)
    made = models.add_head(models.copy_blocks(teacher, (1, 2)), head)
    copy_head(made, teacher)
    np.testing.assert_allclose(made(batch()), teacher(batch()), atol=1e-6)


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
    "lightpaff_qwen3_4_layer_en": 63_770_624,
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
    attention = 4 * (width * width + width)
    feed_forward = width * inner + inner + inner * width + width
    block = attention + feed_forward + 2 * norm
    if isinstance(config, MassConfig):
        rows = config.vocabulary_size + 2 * config.max_sequence_length
        return (
            rows * width
            + 2 * norm
            + config.encoder_num_layers * block
            + config.decoder_num_layers * (block + attention + norm)
        )
    if config.family in ("llama3", "qwen3"):
        groups = width * config.num_key_value_heads // config.num_heads
        block = 2 * width * (width + groups) + 3 * width * inner + norm
        rows = 2 * config.vocabulary_size  # in and out
        if config.family == "qwen3":
            rows, head_dim = rows // 2, width // config.num_heads
            block += 2 * head_dim  # norms of queries and keys
        return rows * width + width + config.num_layers * block
    rows = config.vocabulary_size + config.max_sequence_length
    backbone = rows * width + norm + config.num_layers * block
    if config.family == "gpt2":
        return backbone
    segments, pooler = 2 * width, width * width + width
    return backbone + segments + pooler


# LightPAFF prints whole millions: its 20M, of the same sizes, are 20.8 with the
# pooler and 512 positions.
ROUNDED = {"lightpaff_bert_3_layer_zh": 0.041}


def test_presets_have_the_papers_numbers_of_parameters():
    assert PARAMETERS.keys() == PRESETS.keys()
    for name, preset in PRESETS.items():
        number = PARAMETERS[name]
        assert count_by_hand(preset.config) == number, name
        if preset.paper_parameters is not None:
            tolerance = ROUNDED.get(name, 0.03)
            paper = pytest.approx(preset.paper_parameters, rel=tolerance)
            assert number == paper, name


@pytest.mark.parametrize(
    "name",
    large_except(
        [
            "tinybert_4_layer_en_uncased",
            "lightpaff_gpt2_4_layer_en",
            "lightpaff_llama3_4_layer_en",
            "lightpaff_qwen3_4_layer_en",
        ],
        "tinybert_4_layer_en_uncased",
    ),
)
def test_a_built_student_has_as_many_parameters_as_counted(name):
    assert student(name).count_params() == PARAMETERS[name]
    keras.backend.clear_session()
