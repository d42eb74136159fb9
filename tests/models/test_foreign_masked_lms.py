"""Heads for masked tokens in Hugging Face checkpoints, against transformers."""

import numpy as np
import pytest
from kit.foreign import batch, foreign_model, largest, outputs, save_foreign
from kit.helpers import large_except
from test_foreign_models import TOLERANCE, name_of, old_name, retensor

from kdkit.errors import UsageError
from kdkit.models import (
    has_language_model,
    load_masked_lm,
    save_language_model,
)
from kdkit.models.backbones import load_backbone
from kdkit.models.families import FAMILIES
from kdkit.models.language_models import checkpoint_language_model

POSITIONS = np.array([[1, 4, 8], [0, 2, 5]], "int32")
OPTIONS = [
    ("bert", "ForMaskedLM", {}),
    ("bert", "ForMaskedLM", {"hidden_act": "relu", "layer_norm_eps": 0.01}),
    ("bert", "ForPreTraining", {}),
    ("distil_bert", "ForMaskedLM", {}),
    ("roberta", "ForMaskedLM", {}),
    ("roberta", "ForMaskedLM", {"layer_norm_eps": 1e-5}),
    ("xlm_roberta", "ForMaskedLM", {}),
    ("albert", "ForMaskedLM", {}),
]


def logits_of(model, inputs):
    inputs = {**inputs, "mask_positions": POSITIONS}
    return np.asarray(model({name: inputs[name] for name in model.input}))


def expected_logits(model, received):
    found = outputs(model, received)
    logits = found.logits if "logits" in found else found.prediction_logits
    rows = np.arange(len(POSITIONS))[:, None]
    return logits[rows, POSITIONS]


@pytest.mark.parametrize(("family", "head", "options"), OPTIONS, ids=name_of)
def test_logits_are_the_references(family, head, options, tmp_path):
    model = foreign_model(family, head, **options)
    save_foreign(model, family, tmp_path)
    assert has_language_model(tmp_path)
    loaded = load_masked_lm(tmp_path)  # no warning: it needs no pooler
    assert loaded.has_trained_head
    inputs, received, _ = batch(model, family)
    ours = logits_of(loaded.model, inputs)
    assert largest(ours, expected_logits(model, received)) < TOLERANCE


def test_logits_of_a_deep_albert_are_the_references_in_float64(tmp_path):
    """In float32 transformers itself is off by more than the tolerance."""
    sizes = {"num_hidden_layers": 4, "num_hidden_groups": 2}
    model = foreign_model("albert", "ForMaskedLM", **sizes)
    save_foreign(model, "albert", tmp_path)
    inputs, received, _ = batch(model, "albert")
    ours = logits_of(load_masked_lm(tmp_path).model, inputs)
    exact = expected_logits(model.double(), received)
    assert largest(ours, exact) < TOLERANCE


@pytest.mark.parametrize("family", large_except([*FAMILIES][:5], "bert"))
def test_a_saved_head_is_the_references(family, tmp_path):
    """Old names of tensors, then a preset of kdkit's."""
    model = foreign_model(family, "ForMaskedLM")
    save_foreign(model, family, tmp_path / "foreign")
    retensor(tmp_path / "foreign", old_name)
    loaded = load_masked_lm(tmp_path / "foreign")
    save_language_model(loaded.model, loaded.tokenizer, tmp_path / "own", 9)
    again = load_masked_lm(tmp_path / "own")
    inputs, received, _ = batch(model, family)
    ours = logits_of(again.model, inputs)
    assert largest(ours, expected_logits(model, received)) < TOLERANCE


def test_keras_hub_does_not_save_a_head_that_it_lacks(tmp_path):
    model = foreign_model("bert", "ForMaskedLM", hidden_act="relu")
    save_foreign(model, "bert", tmp_path)
    loaded = load_masked_lm(tmp_path)
    with pytest.raises(UsageError, match="save_language_model"):
        loaded.model.save_to_preset(tmp_path / "preset")


def test_a_decoder_s_head_is_its_embeddings(tmp_path):
    model = foreign_model("gpt2", "LMHeadModel")
    model.save_pretrained(tmp_path)
    backbone = load_backbone(tmp_path)
    ours = checkpoint_language_model(tmp_path, backbone)
    inputs, received, real = batch(model, "gpt2")
    logits = ours({name: inputs[name] for name in ours.input})
    assert largest(logits, outputs(model, received).logits, real) < TOLERANCE


@pytest.mark.parametrize(
    ("family", "head"), [("bert", "ForMaskedLM"), ("gpt2", "LMHeadModel")]
)
def test_a_head_with_embeddings_of_its_own_is_refused(family, head, tmp_path):
    model = foreign_model(family, head, tie_word_embeddings=False)
    save_foreign(model, family, tmp_path)
    backbone = load_backbone(tmp_path, needs_pooler=False)
    with pytest.raises(UsageError, match="is not the token embeddings"):
        checkpoint_language_model(tmp_path, backbone)
