"""`kdkit export` and `kdkit benchmark` of embedders."""

import json
import os
import shutil

import numpy as np
import pytest
from kit.encoders import MORE_SENTENCES, SENTENCES, encoder, tokenizer
from kit.helpers import read_events
from kit.references import reference

from kdkit import export, models, tasks
from kdkit.cli.main import main
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.text_rules import bert_rules

LENGTH, WIDTH = 12, 32
TEXTS = [*SENTENCES, *MORE_SENTENCES]


def pieces():
    """A tokenizer that splits texts as transformers does."""
    return with_rules(tokenizer("bert"), bert_rules(True))


@pytest.fixture(scope="module")
def embedder():
    sizes = {"num_layers": 1, "hidden_dim": WIDTH, "intermediate_dim": 64}
    return models.make_embedder(encoder("bert", None, **sizes))


@pytest.fixture(scope="module")
def directory(embedder, tmp_path_factory):
    path = tmp_path_factory.mktemp("embedders") / "embedder"
    models.save_embedder(embedder, pieces(), path, LENGTH)
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with a file of texts."""
    monkeypatch.chdir(tmp_path)
    lines = [*TEXTS, "", TEXTS[0]]
    (tmp_path / "texts.txt").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(folder, directory):
    """A run with the embedder as its student, on the texts of a table."""
    shutil.copytree(directory, "run/student")
    rows = "\n".join(json.dumps({"number": 1, "text": one}) for one in TEXTS)
    (folder / "texts.jsonl").write_text(rows, encoding="utf-8")
    config = {
        "verb": "distill",
        "recipe": "sentence_embedding",
        "data": {"files": ["texts.jsonl"], "column": "text", "task": None},
    }
    (folder / "run/config.json").write_text(json.dumps(config))
    (folder / "run/metrics.jsonl").touch()
    return folder / "run"


def vectors(model):
    return tasks.embed_texts(model, TEXTS, pieces(), LENGTH)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_runs_files_are_compared_on_its_texts_and_measured(
    run, embedder, capsys
):
    assert main(["export", "run", "--precision", "fp32"]) == 0
    printed = capsys.readouterr().out
    assert f"MediaPipe: {len(TEXTS)} of {len(TEXTS)} compared texts" in printed
    path = run / "exports" / "student-fp32.tflite"
    file = export.open_file(path)
    np.testing.assert_allclose(vectors(file), vectors(embedder), atol=1e-5)
    rows = zip(TEXTS[:4], TEXTS[1:5], "3142", strict=True)
    lines = ["first\tsecond\tscore", *map("\t".join, rows)]
    (run.parent / "pairs.tsv").write_text("\n".join(lines))
    command = ["evaluate", str(path), "--test", "pairs.tsv", "--text-column"]
    command += ["first", "second", "--label-column", "score"]
    assert main(command) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    own = vectors(embedder)
    assert result["metrics"] == pytest.approx(
        tasks.pair_metrics(own[:4], own[1:5], [3, 1, 4, 2]), abs=1e-5
    )
    (event,) = read_events(run, "export")
    assert event["smallest_cosine"] == pytest.approx(1, abs=1e-6)
    assert event["dimensions"] == WIDTH
    card = (run / "exports" / "README.md").read_text()
    assert "texts of texts.jsonl" in card
    command = ["benchmark", "run", "--batch-size", "2", "--runs", "3"]
    assert main(command) == 0
    *_, last = capsys.readouterr().out.splitlines()
    (result,) = json.loads(last)["results"]
    expected = 2 * 1000 / result["median_ms"]
    assert result["sentences_per_second"] == pytest.approx(expected)
    (event,) = read_events(run, "latency")
    assert event["sentences_per_second"] == result["sentences_per_second"]


def test_the_first_dimensions_are_exported(folder, directory, embedder, capsys):
    command = ["export", str(directory), "--texts", "texts.txt"]
    command += ["--precision", "int8", "--dimensions"]
    assert main([*command, "5"]) == 0
    found = vectors(export.open_file("exports/embedder-5d-int8.tflite"))
    expected = unit(vectors(embedder)[:, :5])
    assert ((unit(found) * expected).sum(axis=1) > 0.99).all()
    shutil.rmtree("exports")
    capsys.readouterr()
    assert main([*command, "33"]) == 2
    error = capsys.readouterr().err
    assert "Expected --dimensions from 1 to 32. Received: 33." in error
    assert not os.path.exists("exports")


def test_sentence_transformers_loads_the_directory(
    folder, directory, embedder, capsys
):
    library = reference("sentence_transformers")
    command = ["export", str(directory), "--format", "sentence_transformers"]
    assert main([*command, "--texts", "texts.txt"]) == 0
    path = "exports/embedder-sentence_transformers"
    loaded = library.SentenceTransformer(path, device="cpu")
    assert loaded.max_seq_length == LENGTH
    np.testing.assert_allclose(
        loaded.encode(TEXTS), vectors(embedder), atol=1e-5
    )


def test_an_encoder_becomes_an_embedder_by_its_pooling(
    folder, embedder, capsys
):
    backbone = models.backbone_of(embedder)
    models.save_encoder(backbone, tokenizer("bert"), folder / "encoder")
    command = ["export", "encoder", "--precision", "fp32"]
    assert main([*command, "--pooling", "cls", "--sequence-length", "8"]) == 0
    assert "on random tokens. Pass --texts FILE." in capsys.readouterr().out
    file = export.open_file("exports/encoder-fp32.tflite")
    expected = models.make_embedder(backbone, models.Pooling("cls"))
    batch = {
        "token_ids": np.array([[2, 5, 6, 3]]),
        "segment_ids": np.zeros((1, 4), "int32"),
        "padding_mask": np.ones((1, 4), "int32"),
    }
    np.testing.assert_allclose(
        file(batch), np.asarray(expected(batch)), atol=1e-5
    )
    assert file.sequence_length == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", "sst2", "--logits"], "--task is not read for an embedder"),
        (["--bundle"], "--bundle is not read for an embedder"),
        (["--pooling", "max"], "mean"),
        (["--texts", "none.txt"], "none.txt"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_what_does_not_fit_is_one_error(
    folder, directory, options, message, capsys
):
    assert main(["export", str(directory), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not [path for path in folder.rglob("exports/*") if path.is_file()]
