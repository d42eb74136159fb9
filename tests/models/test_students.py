"""Building students and starting them from teacher layers."""

import numpy as np
import pytest

from kdkit.errors import UsageError
from kdkit.models import BertConfig
from kdkit.models import initialize_from_teacher
from kdkit.models import student
from kdkit.models import student_config

TINY = {
    "num_layers": 2,
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 16,
    "vocabulary_size": 20,
    "max_sequence_length": 12,
}


def test_student_from_a_dict_has_its_sizes():
    backbone = student(TINY)
    assert (backbone.num_layers, backbone.hidden_dim) == (2, 8)


def test_student_with_classes_is_a_classifier_with_logits():
    model = student(TINY, num_classes=3)
    assert model.output_shape == (None, 3)
    assert model.preprocessor is None


def test_settings_replace_those_of_the_preset():
    config = student_config("tinybert_4_layer_en_uncased", num_layers=2)
    assert config.num_layers == 2
    assert config.hidden_dim == 312


def test_dtype_policy_reaches_the_student():
    backbone = student(TINY, dtype="mixed_float16")
    assert backbone.transformer_layers[0].compute_dtype == "float16"


def test_unknown_preset_lists_the_known():
    with pytest.raises(UsageError, match="tinybert_4_layer_en_uncased"):
        student("tinybert")


def test_all_impossible_settings_are_told_at_once():
    with pytest.raises(UsageError) as raised:
        student_config({**TINY, "num_layers": 0, "dropout": 1.5})
    assert "num_layers must be an integer above 0" in str(raised.value)
    assert "dropout must be in [0, 1)" in str(raised.value)


def test_heads_must_divide_the_width():
    with pytest.raises(UsageError, match="num_heads must divide hidden_dim"):
        student_config({**TINY, "num_heads": 3})


def test_unknown_and_missing_settings_are_named():
    with pytest.raises(UsageError, match="unknown setting 'depth'"):
        student_config({**TINY, "depth": 3})
    with pytest.raises(UsageError, match="'num_heads' is missing"):
        student_config({"num_layers": 1, "hidden_dim": 8})


@pytest.fixture(scope="module")
def deep_teacher():
    return student({**TINY, "num_layers": 4}, num_classes=2)


def test_chosen_layers_are_copied(deep_teacher):
    model = initialize_from_teacher(
        student(TINY, num_classes=2), deep_teacher, layers=[1, 4]
    )
    pairs = [
        (model.backbone.transformer_layers[0], 0),
        (model.backbone.transformer_layers[1], 3),
    ]
    for block, index in pairs:
        source = deep_teacher.backbone.transformer_layers[index]
        for copied, original in zip(
            block.get_weights(), source.get_weights(), strict=True
        ):
            np.testing.assert_array_equal(copied, original)
    for name in ("token_embedding", "position_embedding", "pooled_dense"):
        for copied, original in zip(
            getattr(model.backbone, name).get_weights(),
            getattr(deep_teacher.backbone, name).get_weights(),
            strict=True,
        ):
            np.testing.assert_array_equal(copied, original)


def test_all_layers_make_the_same_encoder(deep_teacher):
    backbone = initialize_from_teacher(
        student({**TINY, "num_layers": 4}), deep_teacher, layers=[1, 2, 3, 4]
    )
    batch = {
        "token_ids": np.array([[1, 2, 3]]),
        "segment_ids": np.zeros((1, 3), "int32"),
        "padding_mask": np.ones((1, 3), "int32"),
    }
    np.testing.assert_array_equal(
        backbone(batch)["pooled_output"].numpy(),
        deep_teacher.backbone(batch)["pooled_output"].numpy(),
    )


def test_what_does_not_fit_is_told_at_once_and_nothing_copied(deep_teacher):
    narrow = student({**TINY, "hidden_dim": 4})
    before = narrow.get_weights()
    with pytest.raises(UsageError) as raised:
        initialize_from_teacher(narrow, deep_teacher, layers=[0, 5, 1])
    message = str(raised.value)
    assert "expected 2 layers" in message
    assert "layers count from 1 to 4, received [0, 5]" in message
    assert "hidden_dim differs, student 4, teacher 8" in message
    for old, new in zip(before, narrow.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_config_is_data():
    assert BertConfig(2, 8, 2, 16).vocabulary_size == 30522
