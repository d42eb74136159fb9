"""Encoder-decoders by the verbs: pretrained, distilled, measured, used."""

import json
import shutil

import keras_hub
import numpy as np
import pytest
from helpers import ENGLISH
from helpers import GERMAN
from helpers import read_events
from parallel import of_sentences
from parallel import write_parallel

from kdkit import decoding
from kdkit.cli import writing_texts
from kdkit.cli.ablation_tables import written_metrics
from kdkit.cli.main import main
from kdkit.cli.sentence_evaluation import LEAST_EFFECT
from kdkit.decoding import TextWriter
from kdkit.errors import UsageError
from kdkit.files import locked
from kdkit.models import load_language_model
from kdkit.recipes import pretraining
from kdkit.tasks import generation_metrics
from kdkit.training import CorpusSettings
from kdkit.training import ModelSettings
from kdkit.training import PairSettings
from kdkit.training import PretrainSettings
from kdkit.training import pretrain
from kdkit.training.seq2seq_material import other_sources


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A folder of parallel files."""
    folder = tmp_path_factory.mktemp("parallel")
    write_parallel(folder)
    return folder


@pytest.fixture(scope="module")
def pretrained(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder_decoder") / "pretrained"
    pretrain(of_sentences(text), path)
    return path


def flags(text, *names):
    """The files of a part, one for each language."""
    return [
        *names[:1],
        str(text / f"{names[1]}.en"),
        str(text / f"{names[1]}.de"),
    ]


@pytest.fixture(scope="module")
def translator(text, pretrained, tmp_path_factory):
    """A student of itself, by the recipe's second stage."""
    path = tmp_path_factory.mktemp("encoder_decoder") / "en_de"
    assert main(translation(text, pretrained, path)) == 0
    return path


def translation(text, pretrained, path):
    """The words of the command."""
    return [
        *("pretrain", "--recipe", "lightpaff", "--teacher", str(pretrained)),
        *("--model", str(pretrained), "--languages", "en", "de"),
        *flags(text, "--pairs", "train"),
        *flags(text, "--held-out", "dev"),
        *("--set", "stages.0.epochs=2", "--set", "stages.0.batch_tokens=64"),
        *("--set", "corpus.sequence_length=32", "--set", "jit_compile=false"),
        *("--run-dir", str(path)),
    ]


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
    assert "spans are drawn anew" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_the_preset_writes_in_its_language_where_kdkit_is_imported(translator):
    model = keras_hub.models.Seq2SeqLM.from_preset(
        str(translator / "encoder_decoder")
    )
    assert model.preprocessor.source_language == "en"
    assert model.preprocessor.target_language == "de"


def test_evaluate_measures_what_is_written(text, translator, capsys):
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
    assert ("writes without reading" in captured.err) == hardly
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
    written = []
    for line in ENGLISH:
        main(["generate", str(translator), "--prompt", line])
        written.append(capsys.readouterr().out.removesuffix("\n"))
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
    assert "texts were written without an end" in capsys.readouterr().err
    assert main(arguments) == 2
    assert "is there already" in capsys.readouterr().err


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
    assert "left out, with what they are of" in capsys.readouterr().err
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
        str(text / "dev.en"): "which is --input or --output",
        "de": "which is --input or --output",
        "there": "Name another --kept-input",
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
    assert "Going on after 3 texts." in capsys.readouterr().out
    assert output.read_text() == (tmp_path / "whole.de").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "stopped.de",
        "whole.de",
    ]


def test_the_file_writes_what_the_model_does(
    text, translator, tmp_path, capsys
):
    export = ["export", str(translator), "--precision", "fp32", "int8"]
    assert main(export) == 0
    fp32, int8 = read_events(translator, "export")
    assert fp32["max_abs_difference"] < 1e-4
    assert int8["size_bytes"] < fp32["size_bytes"]
    file = translator / "exports" / "encoder_decoder-fp32.tflite"
    pairs = flags(text, "--pairs", "dev")
    for beams in ("1", "3"):
        found = []
        for model in (translator, file):
            arguments = ["evaluate", str(model), *pairs, "--num-beams", beams]
            assert main(arguments) == 0
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


def test_a_preset_outside_of_a_run_knows_its_languages_and_length(
    text, translator, tmp_path, capsys, monkeypatch
):
    preset = tmp_path / "preset"
    shutil.copytree(translator / "encoder_decoder", preset)
    found = []
    for model in (translator, preset):
        pairs = flags(text, "--pairs", "dev")
        assert main(["evaluate", str(model), *pairs]) == 0
        found.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
    assert found[0] == found[1]
    assert found[0]["sequence_length"] == 32

    def note(model, path, source_length, sequence_length, **settings):
        raise UsageError(f"{source_length} and {sequence_length} tokens")

    monkeypatch.setattr(decoding, "seq2seq_to_litert", note)
    files = str(tmp_path / "files")
    assert main(["export", str(preset), "--output", files]) == 2
    assert "32 and 32 tokens" in capsys.readouterr().err


def test_evaluate_tells_what_is_cut(text, translator, capsys):
    arguments = [
        *("evaluate", str(translator), *flags(text, "--pairs", "dev")),
        *("--num-beams", "1", "--sequence-length", "6"),
    ]
    assert main(arguments) == 0
    assert "texts are cut to 6 tokens" in capsys.readouterr().err


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
        found.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
    config.write_text(json.dumps(settings))
    assert found[0]["languages"] == ["en", "de"]
    assert found[0]["metrics"] != found[1]["metrics"]


def test_what_a_run_held_out_is_named(pretrained, text):
    main(["evaluate", str(pretrained)])
    *_, event = read_events(pretrained, "measurement")
    assert event["corpus"] == [str(text / "train.en"), str(text / "train.de")]
    assert event["held_out_every"] == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--languages", "de", "en"], "--languages needs --pairs"),
        (["--pairs", "A", "B", "--corpus", "A"], "Received: both"),
        (["--corpus", "A", "--num-beams", "2"], "--num-beams needs --pairs"),
        (["--corpus", "A"], "none is named for the text"),
        (["--task", "sst2"], "not of an encoder-decoder"),
        (["--pairs", "A", "--languages", "en", "de"], "Received: 1 files"),
    ],
)
def test_evaluate_refuses(text, pretrained, capsys, arguments, message):
    files = {"A": str(text / "dev.en"), "B": str(text / "dev.de")}
    arguments = [files.get(word, word) for word in arguments]
    assert main(["evaluate", str(pretrained), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_languages_are_checked_before_a_run_begins(
    text, pretrained, tmp_path, capsys
):
    run = tmp_path / "run"
    arguments = [
        *("pretrain", *flags(text, "--pairs", "train"), "--run-dir", str(run)),
        *("--model", str(pretrained), "--set", "corpus.sequence_length=32"),
    ]
    for languages, message in (
        (["--languages", "en", "fr"], "no token for the language 'fr'"),
        ([], "none is named for the text"),
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
        assert f"{field} would not be read" in message
        assert f"set {instead} in its place" in message
    assert not run.exists()


def test_a_run_whose_pairs_are_gone_is_exported(translator, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(translator, copy, ignore=shutil.ignore_patterns("exports"))
    config = json.loads((copy / "config.json").read_text())
    config["corpus"]["held_out"] = ["/gone/a.en", "/gone/a.de"]
    (copy / "config.json").write_text(json.dumps(config))
    assert main(["export", str(copy), "--precision", "fp32"]) == 0
    assert "Compared on generated pairs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num-beams", "0", "--sampler", "beam"], "beam_size=0"),
        (["--sampler", "top_k"], "--sampler top_k"),
        (["--num-beams", "2"], "needs --sampler beam"),
        (["--languages", "en"], "--languages are the one"),
        (["--languages", "en", "fr"], "no token for the language 'fr'"),
        (["--input", "file.en"], "needs --output"),
    ],
)
def test_generate_refuses(translator, capsys, arguments, message):
    assert (
        main(["generate", str(translator), "--prompt", "a dog", *arguments])
        == 2
    )
    assert message in capsys.readouterr().err


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
    with pytest.raises(UsageError, match="Sentences and pairs are for"):
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
