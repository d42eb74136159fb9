"""Pretraining runs: measurements, files and errors."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from kit.helpers import log_softmax, read_events, stopped_after_epoch

from kdkit import data
from kdkit.cli.main import main
from kdkit.models import load_encoder, load_masked_lm
from kdkit.runs import smoke
from kdkit.training import CorpusSettings, ModelSettings, pretrain

TEXTS = 1000
CORPUS = CorpusSettings(sequence_length=32, held_out_every=40, max_texts=TEXTS)


def settings(epochs=2, **changes):
    (stage,) = smoke.PRETRAINING.stages
    stage = dataclasses.replace(stage, epochs=epochs, batch_size=128)
    model = dataclasses.replace(smoke.PRETRAINING.model, num_layers=1)
    return dataclasses.replace(
        smoke.PRETRAINING,
        **{"corpus": CORPUS, "model": model, "stages": (stage,), **changes},
    )


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    path = tmp_path_factory.mktemp("pretraining") / "run"
    pretrain(settings(), path)
    return path


def test_perplexity_and_accuracy_are_of_the_held_out_masks(pretrained):
    loaded = load_masked_lm(pretrained)
    texts = list(CORPUS.texts(held_out=True))
    assert texts == data.load_sentiment("train").texts[0][:TEXTS:40]
    held_out = data.open_packed(pretrained / "corpus" / "held_out")
    masker = data.Masker(data.Masking(), loaded.tokenizer)
    losses, hits = [], []
    rows = data.MaskedRows(held_out, masker)
    stream = data.BatchStream(rows, data.FullBatches(16))
    for x, y, weights in stream.evaluation():
        logits = np.asarray(loaded.model(x))
        chosen = np.take_along_axis(
            log_softmax(logits), y.numpy()[..., None], -1
        )
        counts = weights.numpy() > 0
        losses += list(-chosen[..., 0][counts])
        hits += list((logits.argmax(-1) == y.numpy())[counts])
    (finished,) = read_events(pretrained, "run_finished")
    metrics = finished["best"]["encoder"]["metrics"]
    assert metrics["perplexity"] == pytest.approx(
        np.exp(np.mean(losses)), rel=1e-3
    )
    assert metrics["masked_accuracy"] == pytest.approx(np.mean(hits))


def test_evaluate_measures_what_the_run_held_out(pretrained, capsys):
    assert main(["evaluate", str(pretrained)]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    (finished,) = read_events(pretrained, "run_finished")
    assert answer["metrics"] == pytest.approx(
        finished["best"]["encoder"]["metrics"], rel=1e-3
    )
    assert answer["corpus"] == "held_out"


def test_evaluate_measures_any_text(pretrained, tmp_path, capsys):
    file = tmp_path / "text.txt"
    file.write_text("\n".join(CORPUS.texts(held_out=True)))
    words = ["evaluate", str(pretrained), "--corpus", str(file)]
    assert main(words) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    (finished,) = read_events(pretrained, "run_finished")
    # The same texts, rows and masks.
    assert answer["metrics"] == pytest.approx(
        finished["best"]["encoder"]["metrics"], rel=1e-3
    )
    assert main([*words, "--task", "sst2"]) == 2
    assert "--task is not read for text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sequence-length", "8"], "--sequence-length is not read"),
        (["--corpus", "TEXT", "--stride", "4"], "not read for an encoder"),
        (["--corpus", "TEXT", "--arm", "student"], "has no model student"),
        (
            ["--corpus", "TEXT", "--sequence-length", "64"],
            "the model's 32 positions. Use --sequence-length 32",
        ),
    ],
)
def test_evaluate_on_text_tells_mistakes(
    pretrained, words, message, tmp_path, capsys
):
    file = tmp_path / "text.txt"
    file.write_text(60 * "猫 ")
    words = [word.replace("TEXT", str(file)) for word in words]
    assert main(["evaluate", str(pretrained), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def sweep(pretrained, tmp_path):
    """The words of a sweep on text, and its directory."""
    file = tmp_path / "text.txt"
    file.write_text("\n".join(CORPUS.texts(held_out=True)))
    words = [
        "sweep", "lightpaff", "--corpus", str(file), "--held-out", str(file),
        "--teacher", str(pretrained), "--student", str(pretrained),
        "--set", "stages.0.epochs=1", "--set", "jit_compile=false",
        "--set", "corpus.sequence_length=32",
        "--run-dir", str(tmp_path / "sweep"),
    ]  # fmt: skip
    return words, tmp_path / "sweep"


@pytest.mark.large
def test_a_sweep_on_text_is_by_held_out_perplexity(sweep, capsys):
    words, directory = sweep
    curves = directory.with_suffix(".svg")
    words += ["--over", "soft_label_weight=0.0,1.0", "--curves", str(curves)]
    assert main(words) == 0
    (step,) = json.loads(capsys.readouterr().out.splitlines()[-1])["steps"]
    results = json.loads((directory / "sweep.json").read_text())
    assert (results["metric"], results["split"]) == ("perplexity", "held_out")
    values = [trial["perplexity"] for trial in results["trials"]]
    assert values == sorted(values)
    assert step["metric"] == values[0]
    for trial in results["trials"]:
        config = json.loads(
            (directory / trial["run"] / "config.json").read_text()
        )
        (stage,) = config["stages"]
        (value,) = trial["values"].values()
        assert (stage["soft_label_weight"], config["verb"]) == (
            value,
            "pretrain",
        )
        (finished,) = read_events(directory / trial["run"], "run_finished")
        best = finished["best"]["student"]["metrics"]
        assert best["perplexity"] == trial["perplexity"]
    assert "soft_label_weight" in curves.read_text()


@pytest.fixture
def masked_more(pretrained, tmp_path):
    """The same run, as if it had masked half of the tokens."""
    path = tmp_path / "masked_more"
    shutil.copytree(pretrained, path)
    config = json.loads((path / "config.json").read_text())
    config["corpus"]["masking"]["share"] = 0.5
    (path / "config.json").write_text(json.dumps(config))
    return path


def test_evaluate_says_how_text_was_masked(pretrained, masked_more, capsys):
    values = []
    for run, share in ((pretrained, 0.15), (masked_more, 0.5)):
        assert main(["evaluate", str(run)]) == 0
        output = capsys.readouterr().out
        assert f"Measured with {100 * share:g} % of the tokens mask" in output
        answer = json.loads(output.splitlines()[-1])
        assert answer["masking"]["share"] == share
        values.append(answer["metrics"]["perplexity"])
    assert values[0] != pytest.approx(values[1], rel=1e-4)


def test_augment_writes_copies_with_their_source(pretrained, tmp_path, capsys):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"w{i} {i} {i % 3}\n" for i in range(9)))
    output = tmp_path / "copies.tsv"
    texts = data.load_sentiment("train").texts[0][:40]
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "train.tsv").write_text(
        "".join(["sentence\tlabel\n", *(f"{text}\t1\n" for text in texts)])
    )
    command = [
        "augment", "--task", "sst2", "--data-dir", str(tmp_path),
        "--model", str(pretrained),
        "--word-vectors", str(vectors), "--candidates", "8", "--copies", "1",
        "--output", str(output),
    ]  # fmt: skip
    assert main(command) == 0
    head, *lines = output.read_text().splitlines()
    assert head.split("\t") == ["source_row", "column", "copy", "sentence"]
    assert len(lines) > len(texts) / 2
    for line in lines:
        row, column, copy, text = line.split("\t")
        assert (column, copy) == ("0", "1")
        assert text != texts[int(row)]
        assert len(text.split()) == len(texts[int(row)].split())
    assert main(command) == 2
    assert "already exists" in capsys.readouterr().err


def test_evaluate_wants_a_head_for_masked_tokens(pretrained, tmp_path, capsys):
    encoder, tokenizer = load_encoder(pretrained)
    encoder.save_to_preset(str(tmp_path / "encoder"))
    tokenizer.save_to_preset(str(tmp_path / "encoder"))
    file = tmp_path / "text.txt"
    file.write_text("some words")
    words = [str(tmp_path / "encoder"), "--corpus", str(file)]
    assert main(["evaluate", *words]) == 2
    assert (
        "no trained masked-language-modelling head" in capsys.readouterr().err
    )


@pytest.mark.large
def test_a_stopped_run_goes_on_to_the_same_weights(pretrained, tmp_path):
    with stopped_after_epoch(1):
        pretrain(settings(), tmp_path / "run")
    pretrain(settings(), tmp_path / "run")
    for ours, theirs in zip(
        load_masked_lm(tmp_path / "run").model.get_weights(),
        load_masked_lm(pretrained).model.get_weights(),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_pretraining_goes_on_from_an_encoder(pretrained, tmp_path):
    again = settings(1, model=ModelSettings(checkpoint=str(pretrained)))
    pretrain(again, tmp_path / "run")
    (before,) = read_events(pretrained, "run_finished")
    (after,) = read_events(tmp_path / "run", "run_finished")
    perplexities = [
        event["best"]["encoder"]["metrics"]["perplexity"]
        for event in (before, after)
    ]
    assert perplexities[1] < perplexities[0]


def test_masked_tokens_are_not_kept(pretrained, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("some words\n" * 40)
    words = [
        *("pretrain", "--recipe", "lightpaff", "--teacher", str(pretrained)),
        *("--model", str(pretrained), "--corpus", str(tmp_path / "text.txt")),
        *("--set", "corpus.sequence_length=8", "--set", "jit_compile=false"),
        *("--cache", str(tmp_path / "cache"), "--run-dir", str(tmp_path / "a")),
    ]
    assert main(words) == 2
    assert "drawn again in every epoch" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()
