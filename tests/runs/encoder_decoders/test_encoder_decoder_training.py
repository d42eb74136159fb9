"""Encoder-decoders by `pretrain`: results and errors."""

import json

import pytest
from helpers import read_events
from parallel import flags, of_sentences, translation

from kdkit.cli.main import main
from kdkit.errors import UsageError
from kdkit.models import load_language_model
from kdkit.recipes import pretraining
from kdkit.training import (
    CorpusSettings,
    ModelSettings,
    PairSettings,
    PretrainSettings,
    pretrain,
)


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


def test_hidden_spans_are_not_kept(text, pretrained, tmp_path, capsys):
    words = [
        *("pretrain", "--recipe", "lightpaff", "--teacher", str(pretrained)),
        *("--model", str(pretrained), "--languages", "en", "de"),
        *flags(text, "--corpus", "train"),
        *("--cache", str(tmp_path / "cache"), "--run-dir", str(tmp_path / "a")),
    ]
    assert main(words) == 2
    assert "spans are drawn again" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_languages_are_checked_before_a_run_begins(
    text, pretrained, tmp_path, capsys
):
    run = tmp_path / "run"
    arguments = [
        *("pretrain", *flags(text, "--pairs", "train"), "--run-dir", str(run)),
        *("--model", str(pretrained), "--set", "corpus.sequence_length=32"),
    ]
    for languages, message in (
        (["--languages", "en", "fr"], "language 'fr'"),
        ([], "no language is named for the text"),
    ):
        assert main([*arguments, *languages]) == 2
        assert message in capsys.readouterr().err
        assert not (run / "config.json").exists()


def test_the_size_of_a_batch_that_is_not_read_is_refused(
    text, pretrained, tmp_path, capsys
):
    train = str(text / "train.en")
    run = tmp_path / "run"
    steps = ("distill", "lightpaff", "--vocabulary-size", "300")
    of_sentences = [
        *("pretrain", *flags(text, "--pairs", "train")),
        *("--model", str(pretrained), "--languages", "en", "de"),
    ]
    of_steps = [
        *(*steps, "--model", "mass", "--decoder", "mass_6_layer"),
        *flags(text, "--corpus", "train"),
        *("--languages", "en", "de", *flags(text, "--pairs", "train")),
    ]
    of_rows = [
        *(*steps, "--model", "gpt2", "--decoder", "gpt2_medium_en"),
        *("--corpus", train, "--task-text", train),
    ]
    for command, field, instead in (
        (of_sentences, "stages.0.batch_size", "batch_tokens"),
        (of_steps, "general.stages.0.batch_size", "batch_tokens"),
        (of_rows, "stages.0.batch_tokens", "batch_size"),
    ):
        words = [*command, "--run-dir", str(run), "--set", f"{field}=8"]
        assert main(words) == 2
        message = capsys.readouterr().err
        assert f"{field} would not be used" in message
        assert f"Set {instead} instead" in message
    assert not run.exists()


def test_text_for_another_model_is_refused(text, pretrained, tmp_path):
    pairs = PairSettings(
        tuple(map(str, (text / "train.en", text / "train.de")))
    )
    with pytest.raises(UsageError, match="jit_compile=update"):
        of_sentences(text, corpus=pairs, jit_compile=True)
    sizes = ModelSettings(
        num_layers=1,
        hidden_dim=8,
        num_heads=2,
        intermediate_dim=8,
        family="gpt2",
    )
    with pytest.raises(UsageError, match="sizes of a BERT or GPT-2"):
        of_sentences(text, model=sizes)
    running = PretrainSettings(
        corpus=CorpusSettings(files=pairs.files, sequence_length=32),
        model=ModelSettings(checkpoint=str(pretrained)),
        stages=pretraining.STAGES,
    )
    with pytest.raises(UsageError, match="Encoder-decoders train on sentences"):
        pretrain(running, tmp_path / "run")


def test_files_of_different_lengths_are_told_before_anything(
    text, tmp_path, capsys, pretrained
):
    short = tmp_path / "short.de"
    short.write_text("hund\n")
    arguments = [
        *("pretrain", "--pairs", str(text / "dev.en"), str(short)),
        *("--model", str(pretrained), "--run-dir", str(tmp_path / "run")),
    ]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert f"4 in {text / 'dev.en'}" in error
    assert f"1 in {short}" in error
