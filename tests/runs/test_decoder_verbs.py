"""export, benchmark and generate with a decoder: files, times, text."""

import json

import numpy as np
import pytest
from kit.helpers import decoder, read_events

from kdkit import data, export, models
from kdkit.cli.main import main

PROMPT = "black monday"
ROOM = 24


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A decoder with a tokenizer, outside of a run."""
    folder = tmp_path_factory.mktemp("presets")
    text = ["black monday hit the new york stock exchange", "it was black"] * 9
    tokenizer = models.train_byte_pairs(text, 270)
    model = decoder(1, vocabulary_size=270, max_sequence_length=ROOM)
    models.save_language_model(model, tokenizer, folder / "decoder", ROOM)
    return folder / "decoder"


@pytest.fixture(scope="module")
def run(preset, tmp_path_factory):
    """A run with that decoder, and rows that it held out."""
    path = tmp_path_factory.mktemp("runs") / "run"
    loaded = models.load_language_model(preset)
    models.save_language_model(
        loaded.model, loaded.tokenizer, path / "decoder", ROOM
    )
    data.pack_stream(
        ["it was black monday"] * 9,
        loaded.tokenizer,
        8,
        path / "corpus" / "held_out",
    )
    (path / "config.json").write_text(json.dumps({"verb": "pretrain"}))
    (path / "metrics.jsonl").write_text("")
    return path


@pytest.fixture(scope="module")
def files(run):
    assert main(["export", str(run), "--precision", "fp32", "int8"]) == 0
    return {
        precision: run / "exports" / f"decoder-{precision}.tflite"
        for precision in ("fp32", "int8")
    }


def words(output):
    return output.strip().splitlines()[-1]


def test_a_runs_files_are_compared_on_what_it_held_out(run, files):
    events = read_events(run, "export")[:2]
    assert [event["precision"] for event in events] == ["fp32", "int8"]
    held_out = data.open_packed(run / "corpus" / "held_out").rows[:4]
    for event in events:
        assert (run / event["file"]).is_file()
        assert event["arm"] == "decoder"
        assert event["examples"] == np.count_nonzero(held_out != data.PADDING)
        assert event["sequence_length"] == ROOM


def test_a_step_is_timed(run, files, capsys):
    names = list(map(str, files.values()))
    assert main(["benchmark", *names, "--runs", "6", "--warmup", "1"]) == 0
    output = capsys.readouterr().out
    assert "512" in output.split("━┩")[0]  # the heading of a column
    results = json.loads(words(output))["results"]
    assert [result["file"] for result in results] == names
    assert [result["sequence_length"] for result in results] == [ROOM] * 2
    events = read_events(run, "latency")
    assert [event["reads_tokens"] for event in events] == [True, True]


@pytest.mark.parametrize("length", [3, 200])
def test_more_steps_than_there_is_room_for_can_be_timed(files, length):
    report = export.measure_latency(files["fp32"], runs=length, warmup=0)
    assert report.runs == length
    assert report.sequence_length == ROOM


def test_the_file_says_what_the_model_says(run, preset, files, capsys):
    texts = []
    for model in (run, preset, files["fp32"]):
        arguments = ["--prompt", PROMPT, "--max-tokens", "9"]
        assert main(["generate", str(model), *arguments]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2]
    assert texts[0].startswith(PROMPT)
    assert len(texts[0]) > len(PROMPT) + 1


def test_a_seed_draws_the_same_text_again(files, capsys):
    texts = []
    for seed in "112":
        arguments = ["--sampler", "top_k", "--top-k", "40", "--seed", seed]
        arguments += ["--max-tokens", "12", "--temperature", "2"]
        assert main(["generate", str(files["int8"]), *arguments]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_beams_are_for_keras_models(run):
    arguments = ["--sampler", "beam", "--num-beams", "2", "--max-tokens", "4"]
    assert main(["generate", str(run), *arguments]) == 0


def test_a_file_elsewhere_needs_a_tokenizer(files, preset, tmp_path, capsys):
    file = tmp_path / "moved.tflite"
    file.write_bytes(files["fp32"].read_bytes())
    arguments = ["generate", str(file), "--max-tokens", "4"]
    assert main(arguments) == 2
    assert "Pass --tokenizer MODEL" in capsys.readouterr().err
    assert main([*arguments, "--tokenizer", str(preset)]) == 0
