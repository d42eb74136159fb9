"""Pretraining runs of decoders: measurements, files and errors."""

import dataclasses
import json

import numpy as np
import pytest
from kit.helpers import log_softmax, read_events

from kdkit import data
from kdkit.cli.main import main
from kdkit.models import load_language_model
from kdkit.recipes import RECIPES, pretraining
from kdkit.training import (
    CorpusSettings,
    ModelSettings,
    PretrainSettings,
    pretrain,
)

LENGTH = 8
WORDS = "no it was n't black monday but the new york stock exchange did n't"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Lines of a benchmark: training and held-out files."""
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    for name, lines in (("train", 48), ("valid", 9)):
        with open(folder / f"{name}.txt", "w") as file:
            for _ in range(lines):
                file.write(f" {' '.join(rng.permutation(WORDS.split()))} \n")
    return folder


def settings(text, **changes):
    (stage,) = pretraining.STAGES
    return PretrainSettings(
        **{
            "corpus": CorpusSettings(
                files=(str(text / "train.txt"),),
                held_out=(str(text / "valid.txt"),),
                sequence_length=LENGTH,
                one_document=True,
                detokenizer="ptb",
            ),
            "model": ModelSettings(
                num_layers=2,
                hidden_dim=16,
                num_heads=2,
                intermediate_dim=32,
                max_sequence_length=LENGTH,
                dropout=0.0,
                family="gpt2",
            ),
            "stages": (
                dataclasses.replace(
                    stage, epochs=2, learning_rate=1e-2, batch_size=64
                ),
            ),
            "vocabulary_size": 270,
            "jit_compile": False,
            **changes,
        }
    )


@pytest.fixture(scope="module")
def pretrained(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("causal") / "run"
    pretrain(settings(text), path)
    return path


def metrics_of(run):
    (finished,) = read_events(run, "run_finished")
    return finished["best"]["decoder"]["metrics"]


def test_perplexities_are_of_every_token_and_of_every_word(pretrained, text):
    loaded = load_language_model(pretrained)
    lines = (text / "valid.txt").read_text().splitlines()
    joined = "".join(
        f"{data.DETOKENIZERS['ptb'](line.strip())}\n" for line in lines
    )
    end = loaded.tokenizer.end_token_id
    stream = np.array([end, *loaded.tokenizer(joined), end])
    losses, hits = [], []
    for start in range(0, len(stream) - 1, LENGTH):
        row = stream[start : start + LENGTH + 1][np.newaxis]
        x = {
            "token_ids": row[:, :-1],
            "padding_mask": np.ones_like(row[:, :-1]),
        }
        logits = np.asarray(loaded.model(x))[0]
        labels = row[0, 1:]
        losses += list(-log_softmax(logits)[np.arange(len(labels)), labels])
        hits += list(logits.argmax(-1) == labels)
    words = sum(len(line.split()) + 1 for line in lines)
    assert metrics_of(pretrained) == pytest.approx(
        {
            "perplexity": np.exp(np.mean(losses)),
            "next_token_accuracy": np.mean(hits),
            "word_perplexity": np.exp(np.sum(losses) / words),
        },
        rel=1e-4,
    )


def evaluate(capsys, *words):
    assert main(["evaluate", *map(str, words)]) == 0
    line = capsys.readouterr().out.strip().splitlines()[-1]
    return json.loads(line)["metrics"]


@pytest.mark.large
def test_evaluate_finds_the_runs_own_numbers_and_with_a_stride_others(
    pretrained, text, capsys
):
    own = evaluate(capsys, pretrained)
    assert own == pytest.approx(metrics_of(pretrained), rel=1e-4)
    options = [
        pretrained, "--corpus", text / "valid.txt", "--one-document",
        "--detokenizer", "ptb",
    ]  # fmt: skip
    assert evaluate(capsys, *options) == pytest.approx(own, rel=1e-4)
    # The same tokens, with more before them.
    closer = evaluate(capsys, *options, "--stride", 1)
    assert closer != pytest.approx(own, rel=1e-4)
    assert closer == pytest.approx(own, rel=0.1)


@pytest.mark.large
def test_a_student_learns_by_lightpaff(pretrained, text, tmp_path):
    """In chunks of the positions of 32 rows."""
    words = [
        "pretrain", "--recipe", "lightpaff", "--stage", "fine_tuning",
        "--teacher", str(pretrained), "--model", str(pretrained),
        "--corpus", str(text / "train.txt"),
        "--held-out", str(text / "valid.txt"), "--one-document",
        "--detokenizer", "ptb",
        "--set", f"corpus.sequence_length={LENGTH}",
        "--set", "jit_compile=false", "--set", "stages.0.epochs=1",
        "--set", "stages.0.batch_size=64",
    ]  # fmt: skip
    words += [
        *("--set", "stages.0.chunk_size=256"),
        *("--set", "stages.0.objectives.0.loss.top_k=8"),
    ]
    run, cached = tmp_path / "run", tmp_path / "cached"
    cache = ["--cache", str(tmp_path / "cache"), "--cache-precision", "bf16"]
    assert main([*words, "--run-dir", str(run)]) == 0
    assert main([*words, *cache, "--run-dir", str(cached)]) == 0
    (epoch,) = read_events(run, "epoch")
    logs = epoch["logs"]
    (of_cached,) = read_events(cached, "epoch")
    assert of_cached["logs"] == pytest.approx(logs, rel=2e-3, abs=1e-4)
    (kept,) = read_events(cached, "teacher_cache")
    ((name, error),) = kept["relative_errors"][0].items()
    assert name == "logits@8@1.0"
    assert 0 < error < 0.01
    assert logs["loss"] == pytest.approx(
        0.5 * logs["hard_label_loss"] + 0.5 * logs["logit_kl_divergence"],
        rel=1e-3,
    )
    # Of other outputs: told before a run has begun with it.
    refused = tmp_path / "refused"
    assert main([*words, *cache[:-1], "int8", "--run-dir", str(refused)]) == 2
    assert not refused.exists()


def test_arms_with_and_without_a_teacher_begin_with_the_same_weights(
    pretrained, text, tmp_path, monkeypatch
):
    begun = []

    def begin(model, **_):
        begun.append(model.get_weights())
        raise InterruptedError

    monkeypatch.setattr("kdkit.runs.runner.Arm", begin)
    (stage, _) = RECIPES["lightpaff"].for_families["gpt2"].stages
    with_teacher = settings(
        text, teacher=str(pretrained), stages=(stage,), vocabulary_size=None
    )
    without = settings(text, tokenizer=str(pretrained), vocabulary_size=None)
    for name, arm in (("with", with_teacher), ("without", without)):
        with pytest.raises(InterruptedError):
            pretrain(arm, tmp_path / name)
    for ours, theirs in zip(*begun, strict=True):
        np.testing.assert_array_equal(ours, theirs)
