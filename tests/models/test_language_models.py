"""Masked-language models: tied head, files, other uses of their encoder."""

import keras_hub
import numpy as np
import pytest
from kit import encoders
from kit.helpers import batch, bert, large_except

from kdkit import data, models
from kdkit.models.families import FAMILIES
from kdkit.taps import select_inputs


@pytest.fixture(scope="module")
def tokenizer():
    return keras_hub.tokenizers.BertTokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )


def inputs():
    return {
        **batch(),
        "mask_positions": np.array([[0, 1], [1, 0], [0, 0], [1, 1]]),
    }


def test_head_is_tied_to_the_embeddings():
    backbone = bert(num_classes=None)
    model = models.language_model(backbone)
    shapes = [
        tuple(weight.shape)
        for weight in model.trainable_weights
        if all(weight is not other for other in backbone.trainable_weights)
    ]
    # Dense layer, layer normalisation and a bias per token; no second matrix
    # as wide as the vocabulary.
    assert sorted(shapes) == sorted([(8, 8), (8,), (8,), (8,), (20,)])


def test_an_encoder_without_a_head_gets_a_new_one(tokenizer, tmp_path):
    classifier = models.student(
        {
            "num_layers": 1,
            "hidden_dim": 8,
            "num_heads": 2,
            "intermediate_dim": 16,
            "vocabulary_size": tokenizer.vocabulary_size(),
        },
        num_classes=2,
    )
    models.save_preset(classifier, tokenizer, tmp_path / "model", 16)
    loaded = models.load_masked_lm(tmp_path / "model")
    assert not loaded.has_trained_head
    for ours, theirs in zip(
        loaded.model.backbone.get_weights(),
        classifier.backbone.get_weights(),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "family",
    large_except(
        [one.name for one in FAMILIES.values() if one.masked_lm],
        *("bert", "roberta", "deberta_v3"),
    ),
)
def test_every_family_with_such_a_model_has_its_own(family, tmp_path):
    tokenizer = encoders.tokenizer(family)
    model = models.language_model(
        encoders.encoder(
            family,
            num_classes=None,
            vocabulary_size=tokenizer.vocabulary_size(),
        )
    )
    x = select_inputs(model, inputs())
    logits = model(x)
    assert logits.shape == (4, 2, tokenizer.vocabulary_size())
    models.save_language_model(model, tokenizer, tmp_path / "encoder", 12)
    loaded = models.load_masked_lm(tmp_path / "encoder")
    assert loaded.has_trained_head
    np.testing.assert_allclose(loaded.model(x), logits, atol=1e-5)
