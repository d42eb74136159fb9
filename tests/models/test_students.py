"""Building students and starting them from teacher layers."""

import numpy as np
import pytest

from kdkit.models import (
    initialize_from_teacher,
    least_parameters,
    student,
    student_config,
)
from kdkit.models.families import ALL_FAMILIES, FAMILIES, blocks_of

TINY = {
    "num_layers": 2,
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 16,
    "vocabulary_size": 20,
    "max_sequence_length": 12,
}


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_least_parameters_are_no_more_than_there_are(family):
    config = student_config(TINY, family=family)
    built = student(config).count_params()
    assert 0.2 * built < least_parameters(config) <= built


@pytest.fixture(scope="module")
def deep_teacher():
    return student({**TINY, "num_layers": 4}, num_classes=2)


@pytest.mark.parametrize("family", FAMILIES)
def test_student_of_a_family_has_its_class_and_sizes(family):
    model = student(TINY, family=family, num_classes=3, dropout=0.3)
    assert type(model) is FAMILIES[family].classifier
    assert type(model.backbone) is FAMILIES[family].backbone
    assert model.dropout == model.backbone.dropout == 0.3
    for name, size in TINY.items():
        expected = size if FAMILIES[family].takes(name) else None
        assert FAMILIES[family].size(model.backbone, name) == expected


def test_width_of_the_embeddings_is_of_albert_and_electra_alone():
    wide = student({**TINY, "family": "albert"})
    narrow = student({**TINY, "family": "albert"}, embedding_dim=4)
    assert (wide.embedding_dim, narrow.embedding_dim) == (8, 4)


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_every_family_starts_from_its_own(family):
    config = {**TINY, "family": family}
    teacher = student({**config, "num_layers": 3})
    backbone = initialize_from_teacher(student(config), teacher, layers=[1, 3])
    blocks, sources = blocks_of(backbone), blocks_of(teacher)
    copied = [(blocks[0], sources[0]), (blocks[1], sources[2])]
    copied.append((backbone.token_embedding, teacher.token_embedding))
    for layer, source in copied:
        for weight, expected in zip(
            layer.get_weights(), source.get_weights(), strict=True
        ):
            np.testing.assert_array_equal(weight, expected)


def test_all_layers_of_any_family_make_the_same_encoder():
    """Nothing of the encoder is forgotten."""
    for family in FAMILIES:
        config = {**TINY, "family": family}
        teacher = student(config)
        backbone = initialize_from_teacher(student(config), teacher, [1, 2])
        for weight, expected in zip(
            backbone.get_weights(), teacher.get_weights(), strict=True
        ):
            np.testing.assert_array_equal(weight, expected)


def test_a_distil_bert_starts_from_a_bert(deep_teacher):
    model = student(TINY, family="distil_bert", num_classes=2)
    initialize_from_teacher(model, deep_teacher, layers=[1, 3])
    source = deep_teacher.backbone
    for layer, expected in (
        (model.backbone.transformer_layers[1], source.transformer_layers[2]),
        (
            model.backbone.embeddings.position_embedding,
            source.position_embedding,
        ),
        (model.backbone.embeddings_layer_norm, source.embeddings_layer_norm),
    ):
        for copied, original in zip(
            layer.get_weights(), expected.get_weights(), strict=True
        ):
            np.testing.assert_array_equal(copied, original)
