"""Encoder-decoders by `generate` and `export`: texts, pairs, files."""

import json

import pytest
from kit.helpers import ENGLISH, read_events
from kit.parallel import flags

from kdkit.cli import generate as writing_texts
from kdkit.cli.main import main
from kdkit.generation import TextWriter
from kdkit.io.locks import locked


def test_a_file_is_written_of_a_file_line_by_line(
    text, translator, tmp_path, capsys
):
    output = tmp_path / "new" / "written.de"
    arguments = [
        *("generate", str(translator), "--sampler", "beam", "--num-beams", "2"),
        *("--input", str(text / "dev.en"), "--output", str(output)),
        *("--max-tokens", "12"),
    ]
    assert main(arguments) == 0
    assert len(output.read_text().splitlines()) == len(ENGLISH)
    # A student of a few updates does not know where a text ends.
    assert "texts have no end" in capsys.readouterr().err
    assert main(arguments) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.fixture
def written_pairs(text, translator, tmp_path, monkeypatch):
    """Words of a command whose teacher writes nothing of what sleeps."""
    monkeypatch.setattr(
        TextWriter,
        "__call__",
        lambda self, texts: [
            "\u200b" if "sleeps" in one else "ein" for one in texts
        ],
    )
    monkeypatch.chdir(tmp_path)
    return [
        *("generate", str(translator), "--input", str(text / "dev.en")),
        *("--kept-input", "en", "--output", "de"),
    ]


def check_written_pairs(folder):
    kept = [line for line in ENGLISH if "sleeps" not in line]
    assert 0 < len(kept) < len(ENGLISH)
    assert (folder / "en").read_text().splitlines() == kept
    assert (folder / "de").read_text().splitlines() == ["ein"] * len(kept)
    assert {path.name for path in folder.glob("[!.]*")} == {"en", "de"}


def test_what_is_written_is_paired_with_what_it_is_of(
    text, pretrained, written_pairs, tmp_path, capsys
):
    assert main(written_pairs) == 0
    assert "dropped, with their sources" in capsys.readouterr().err
    check_written_pairs(tmp_path)
    # Sequence-level distillation: they are pairs as others are.
    words = [
        *("pretrain", "--pairs", "en", "de", "--languages", "en", "de"),
        *("--model", str(pretrained), *flags(text, "--held-out", "dev")),
        *("--set", "stages.0.epochs=1", "--set", "jit_compile=false"),
        *("--set", "corpus.sequence_length=32", "--run-dir", "sequences"),
    ]
    assert main(words) == 0
    assert "pairs: 3 to train on" in capsys.readouterr().out


@pytest.mark.parametrize("last", ["en", "de"])
def test_a_stop_while_pairs_get_their_names_loses_nothing(
    last, written_pairs, tmp_path, monkeypatch
):
    write_text = writing_texts.write_text

    def stop_after(path, content):
        write_text(path, content)
        if str(path) == last:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writing_texts, "write_text", stop_after)
        assert main(written_pairs) == 130
    assert (tmp_path / last).exists()
    # 2: all was there but for what is removed.
    assert main(written_pairs) == {"en": 0, "de": 2}[last]
    check_written_pairs(tmp_path)


def test_no_file_is_written_over_by_pairs(
    text, written_pairs, tmp_path, capsys
):
    for name, message in {
        str(text / "dev.en"): "already exists",
        "de": "cannot be --output and --kept-input",
        "there": "already exists",
    }.items():
        (tmp_path / "there").write_text("mine")
        words = [name if word == "en" else word for word in written_pairs]
        assert main(words) == 2
        assert message in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"there"}


def test_writing_goes_on_where_it_was_stopped(
    text, translator, tmp_path, capsys, monkeypatch
):
    def write(output, *more):
        return main(
            [
                *("generate", str(translator), "--output", str(output)),
                *("--input", str(text / "dev.en"), *more),
            ]
        )

    assert write(tmp_path / "whole.de") == 0
    monkeypatch.setattr(writing_texts, "LINES_AT_ONCE", 3)
    call = TextWriter.__call__

    def stop_after_three(self, texts):
        if len(texts) < 3:
            raise KeyboardInterrupt
        return call(self, texts)

    output = tmp_path / "stopped.de"
    with monkeypatch.context() as patch:
        patch.setattr(TextWriter, "__call__", stop_after_three)
        assert write(output) == 130
    assert not output.exists()
    capsys.readouterr()
    assert write(output, "--max-tokens", "8") == 2
    assert "was begun with another" in capsys.readouterr().err
    with locked(tmp_path / ".stopped.de.lock"):
        assert write(output) == 2
    assert "Another process writes" in capsys.readouterr().err
    assert write(output) == 0
    assert "Continuing after 3 texts." in capsys.readouterr().out
    assert output.read_text() == (tmp_path / "whole.de").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "stopped.de",
        "whole.de",
    ]


@pytest.mark.large
def test_the_file_writes_what_the_model_does(
    text, translator, tmp_path, capsys
):
    export = ["export", str(translator), "--precision", "fp32", "int8"]
    assert main(export) == 0
    fp32, int8, *_ = read_events(translator, "export")
    assert fp32["max_abs_difference"] < 1e-4
    assert int8["size_bytes"] < fp32["size_bytes"]
    file = translator / "exports" / "student-fp32.tflite"
    pairs = flags(text, "--pairs", "dev")
    found = []
    for model in (translator, file):
        assert main(["evaluate", str(model), *pairs, "--num-beams", "2"]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        found.append(json.loads(last)["metrics"])
    assert found[1].keys() == {"bleu", "chrf"}
    assert found[1].items() <= found[0].items()
    generate = ["generate", str(file), "--prompt", ENGLISH[0]]
    assert main(generate) == 0
    vocabulary = tmp_path / "vocabulary.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    assert main([*generate, "--tokenizer", str(vocabulary)]) == 2
    assert "Received: a BertTokenizer" in capsys.readouterr().err
    benchmark = ["benchmark", str(file), "--runs", "2", "--warmup", "1"]
    assert main(benchmark) == 0
    (event,) = read_events(translator, "latency")
    assert event["reads_sources"]
    assert event["sequence_length"] == 25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num-beams", "0", "--sampler", "beam"], "beam_size=0"),
        (["--sampler", "top_k"], "sampler 'top_k'"),
        (["--num-beams", "2"], "--num-beams is not read by greedy search"),
        (["--languages", "en", "fr"], "language 'fr'"),
    ],
)
def test_generate_refuses(translator, capsys, arguments, message):
    assert (
        main(["generate", str(translator), "--prompt", "a dog", *arguments])
        == 2
    )
    assert message in capsys.readouterr().err
