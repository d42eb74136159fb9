"""kdkit.doctor.text_examination: sizes of models on text, without them."""

import dataclasses

import pytest

from kdkit import models
from kdkit.config.model import Mass, Sizes
from kdkit.doctor.text_examination import text_model
from kdkit.taps import describe

SIZES = {
    "hidden_dim": 16,
    "num_heads": 2,
    "intermediate_dim": 24,
    "max_sequence_length": 12,
}


@pytest.mark.parametrize(
    "settings",
    [
        Sizes(num_layers=2, family="gpt2", **SIZES),
        Mass(encoder_num_layers=2, decoder_num_layers=1, **SIZES),
    ],
    ids=["gpt2", "mass"],
)
def test_sizes_of_models_on_text_are_those_of_the_built_model(settings):
    sizes = dict(settings)
    if isinstance(settings, Mass):
        sizes = models.MassConfig(**sizes)
    built = models.language_model(models.student(sizes, vocabulary_size=300))
    known = text_model(settings, 300)
    assert known.parameters == built.count_params()
    assert known.shape == dataclasses.replace(describe(built), num_classes=300)
