"""Families of a user's own (goes with models/families/family.py)."""

import keras_hub
import numpy as np
import pytest
from kit import encoders
from kit.foreign import CHECKPOINTS
from kit.helpers import LENGTH, VOCABULARY_SIZE, batch

import kdkit
from kdkit import models, taps
from kdkit.models.families import FAMILIES, family

SIZES = {
    "family": "own",
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 16,
    "vocabulary_size": VOCABULARY_SIZE,
    "max_sequence_length": LENGTH,
}


class OwnBackbone(keras_hub.models.BertBackbone):
    """A backbone of a user's own."""


class OwnTokenizer(keras_hub.tokenizers.BertTokenizer):
    """The tokenizer that goes with it."""

    backbone_cls = OwnBackbone


def test_every_family_of_kdkit_is_in_the_contracts():
    assert (*FAMILIES,) == encoders.ENCODERS
    assert (*family.DECODERS,) == (*encoders.DECODERS,)
    read = [name for name, one in FAMILIES.items() if one.checkpoints]
    assert tuple(read) == CHECKPOINTS


@pytest.fixture
def unregistered():
    """Families that a test registers are gone after it."""
    before = dict(family._ENCODERS)
    yield
    family._ENCODERS.clear()
    family._ENCODERS.update(before)
    family._by_class.cache_clear()


def test_a_registered_family_is_built_tapped_distilled_and_copied(unregistered):
    @models.register_family
    class Own(models.Family):
        name = "own"
        title = "Own"
        backbone = OwnBackbone
        tokenizer = OwnTokenizer
        classifier = keras_hub.models.BertTextClassifier
        parts = {"token_embedding": "token_embedding"}  # noqa: RUF012

    assert isinstance(FAMILIES["own"], Own)
    teacher, student = (
        models.student({**SIZES, "num_layers": depth}, num_classes=3)
        for depth in (2, 1)
    )
    assert type(teacher.backbone) is OwnBackbone
    assert taps.describe(teacher).family == "own"
    models.initialize_from_teacher(student, teacher, layers=[2])
    objectives = [
        kdkit.Objective(kdkit.losses.AttentionMSE(), tap="attention_probs"),
        kdkit.Objective(kdkit.losses.LogitMSE()),
    ]
    distiller = kdkit.Distiller(teacher, student, objectives)
    distiller.compile("adam")
    logs = distiller.train_on_batch(batch(), return_dict=True)
    assert 0 < logs["loss"] < np.inf
