"""Encoder-decoders by `evaluate`: BLEU, perplexity, other sources."""

import json
import shutil

import numpy as np
import pytest
from kit.helpers import GERMAN, read_events
from kit.parallel import flags

from kdkit.cli.ablate import written_metrics
from kdkit.cli.main import main
from kdkit.cli.text_evaluation import LEAST_EFFECT
from kdkit.tasks import generation_metrics
from kdkit.training.text_data import other_sources

pytestmark = pytest.mark.large


def test_evaluate_measures_what_is_written(text, translator, tmp_path, capsys):
    arguments = [
        *("evaluate", str(translator), *flags(text, "--pairs", "dev")),
        *("--num-beams", "1"),
    ]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    *lines, last = captured.out.splitlines()
    result = json.loads(last)
    others = result["metrics"]["perplexity_of_other_sources"]
    hardly = others < LEAST_EFFECT * result["metrics"]["perplexity"]
    assert ("ignores its source" in captured.err) == hardly
    *_, evaluation = read_events(translator, "evaluation")
    assert result["metrics"]["perplexity"] == pytest.approx(
        evaluation["metrics"]["perplexity"]
    )
    assert result["languages"] == ["en", "de"]
    signature = result["signatures"]["bleu"]
    assert "tok:13a" in signature
    assert f"bleu: {result['metrics']['bleu']:.4f} ({signature})" in lines
    assert (result["beam_size"], result["examples"]) == (1, 4)
    (noted,) = read_events(translator, "measurement")
    assert noted["metrics"] == result["metrics"]
    files = ["--input", str(text / "dev.en"), "--output", str(tmp_path / "de")]
    assert main(["generate", str(translator), *files]) == 0
    written = (tmp_path / "de").read_text().splitlines()
    expected = generation_metrics(written, GERMAN)
    assert result["metrics"]["bleu"] == pytest.approx(expected["bleu"])
    assert result["metrics"]["chrf"] == pytest.approx(expected["chrf"])


def test_what_an_arm_writes_is_measured_once(text, translator, tmp_path):
    run = tmp_path / "arm"
    shutil.copytree(translator, run)
    before = len(read_events(run, "measurement"))
    found = written_metrics(run)
    assert 0 <= found["metrics"]["bleu"] <= 100
    assert "version:" in found["signatures"]["bleu"]
    *_, noted = read_events(run, "measurement")
    assert found.items() <= noted.items()
    assert noted["pairs"] == flags(text, "--held-out", "dev")[1:]
    assert written_metrics(run) == noted
    assert len(read_events(run, "measurement")) == before + 1


def test_targets_with_the_sources_of_others_stay_in_their_batch():
    inputs = {
        "encoder_token_ids": np.arange(6).reshape(3, 2),
        "encoder_padding_mask": np.array([[1, 0], [1, 1], [1, 1]]),
        "decoder_token_ids": np.arange(3)[:, None],
    }
    ((moved, labels, weights),) = other_sources([(inputs, "labels", "weights")])
    assert (labels, weights) == ("labels", "weights")
    order = [2, 0, 1]
    for name, array in inputs.items():
        expected = array[order] if name.startswith("encoder") else array
        np.testing.assert_array_equal(moved[name], expected)


def test_a_pair_by_itself_has_the_source_of_the_one_before():
    def batch(*rows):
        rows = np.array(rows)[:, None]
        names = ("encoder_token_ids", "encoder_padding_mask")
        return {**dict.fromkeys(names, rows), "decoder_token_ids": rows}, None

    halves = ("encoder", "decoder")
    batches = [batch(1), batch(2), batch(3, 4), batch(5)]
    found = [
        [moved[f"{half}_token_ids"].ravel().tolist() for half in halves]
        for moved, _ in other_sources(batches)
    ]
    assert found == [[[1], [2]], [[4, 3], [3, 4]], [[4], [5]]]


def test_a_run_is_measured_on_what_it_held_out(pretrained, capsys):
    assert main(["evaluate", str(pretrained)]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    *_, evaluation = read_events(pretrained, "evaluation")
    assert result["metrics"] == pytest.approx(evaluation["metrics"])


def test_text_that_changed_is_not_what_a_run_held_out(
    pretrained, tmp_path, capsys
):
    run = tmp_path / "run"
    shutil.copytree(pretrained, run)
    config = json.loads((run / "config.json").read_text())
    file = tmp_path / "changed.txt"
    file.write_text("one more text\n")
    config["corpus"]["files"][0] = str(file)
    (run / "config.json").write_text(json.dumps(config))
    assert main(["evaluate", str(run)]) == 2
    assert "the content of the corpus has changed" in capsys.readouterr().err


def test_a_preset_outside_of_a_run_knows_its_languages_and_length(
    text, translator, tmp_path, capsys
):
    preset = tmp_path / "preset"
    shutil.copytree(translator / "student", preset)
    found = []
    for model in (translator, preset):
        pairs = flags(text, "--pairs", "dev")
        words = ["evaluate", str(model), *pairs, "--num-beams", "1"]
        assert main(words) == 0
        found.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
    assert found[0] == found[1]
    assert found[0]["sequence_length"] == 32


def test_sentences_are_hidden_as_in_the_run(text, pretrained, capsys):
    config = pretrained / "config.json"
    settings = json.loads(config.read_text())
    changed = settings["corpus"] | {"spans": settings["corpus"]["spans"]}
    changed["spans"] = changed["spans"] | {"share": 1.0}
    files = [str(text / "dev.en"), str(text / "dev.de")]
    found = []
    for corpus in (settings["corpus"], changed):
        config.write_text(json.dumps(settings | {"corpus": corpus}))
        assert main(["evaluate", str(pretrained), "--corpus", *files]) == 0
        output = capsys.readouterr().out
        share = 100 * corpus["spans"]["share"]
        assert f"with spans of {share:g} % of a sentence hidden" in output
        found.append(json.loads(output.splitlines()[-1]))
        assert found[-1]["spans"] == corpus["spans"]
    config.write_text(json.dumps(settings))
    assert found[0]["languages"] == ["en", "de"]
    assert found[0]["metrics"] != found[1]["metrics"]
