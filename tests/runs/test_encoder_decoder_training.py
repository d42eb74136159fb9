"""Encoder-decoders by `pretrain`: results and errors."""

import json

import pytest
from kit.helpers import read_events
from kit.parallel import translation

from kdkit.cli.main import main
from kdkit.models import load_language_model


def test_pretraining_leaves_a_preset_and_its_vocabulary(pretrained):
    loaded = load_language_model(pretrained)
    assert loaded.tokenizer.languages == ["en", "de"]
    assert loaded.model.backbone.vocabulary_size == 300
    *_, evaluation = read_events(pretrained, "evaluation")
    assert evaluation["examples"] == 4
    assert evaluation["metrics"].keys() == {"perplexity", "token_accuracy"}
    first, last = read_events(pretrained, "epoch")
    assert last["logs"]["loss"] < first["logs"]["loss"]


def test_pairs_are_the_recipes_last_stage(translator):
    (stage,) = json.loads((translator / "config.json").read_text())["stages"]
    assert stage["name"] == "fine_tuning"
    first, last = read_events(translator, "epoch")
    assert first["logs"]["logit_kl_divergence"] > 0
    assert last["logs"]["loss"] < first["logs"]["loss"]


@pytest.mark.large
def test_a_cache_of_pairs_gives_the_same_losses(
    text, pretrained, translator, tmp_path
):
    words = translation(text, pretrained, tmp_path / "cached")
    assert main([*words, "--cache", str(tmp_path / "cache")]) == 0
    plain, cached = (
        [event["logs"] for event in read_events(run, "epoch")]
        for run in (translator, tmp_path / "cached")
    )
    assert len(plain) == len(cached) == 2
    for one, other in zip(plain, cached, strict=True):
        assert other == pytest.approx(one, rel=2e-3)
