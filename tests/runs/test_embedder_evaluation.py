"""`kdkit evaluate` of an embedder: pairs, retrieval, translations, a run."""

import functools
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import scipy.spatial
import scipy.stats
from kit.encoders import encoder, tokenizer
from kit.helpers import read_events

from kdkit import data, models, tasks
from kdkit.cli import embedder_evaluation
from kdkit.cli.main import main
from kdkit.data.stored_texts import choose_texts, store_texts
from kdkit.reporting import read_run
from kdkit.reporting.notes import run_notes

FIRST = ["a dull plot", "good", "the end is superb", "weak", "a cast", "yet"]
SECOND = ["a weak plot", "superb", "the end", "the cast", "a cast", "dull"]
SCORES = [4.5, 3.0, 3.5, 0.0, 5.0, 1.0]
LENGTH = 12  # the positions of the models of tests
COLUMNS = ["--text-column", "a", "b", "--label-column", "score"]


@pytest.fixture(scope="module")
def embedder():
    backbone = models.backbone_of(encoder("bert"))
    return models.make_embedder(backbone, models.Pooling("mean"))


@pytest.fixture(scope="module")
def directory(embedder, read, tmp_path_factory):
    path = tmp_path_factory.mktemp("embedders") / "embedder"
    models.save_embedder(embedder, read, path, LENGTH)
    return path


@pytest.fixture
def loaded_once(directory, monkeypatch):
    """Loads no model again: all without a given pooling are the embedder."""
    load = models.load_embedder
    monkeypatch.setattr(
        models,
        "load_embedder",
        lambda path, pooling=None: _cached(load, directory, pooling),
    )


@functools.cache
def _cached(load, directory, pooling):
    return load(directory, pooling)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with files for each kind of data."""
    monkeypatch.chdir(tmp_path)
    rows = zip(FIRST, SECOND, map(str, SCORES), strict=True)
    write("pairs.tsv", "a\tb\tscore", *map("\t".join, rows))
    write("queries.tsv", "_id\ttext", *numbered(FIRST))
    write("documents.tsv", "_id\ttext", *numbered(SECOND))
    judgements = (f"{one}\t{one}\t1" for one in range(5))
    write("judgements.tsv", "query-id\tcorpus-id\tscore", *judgements)
    write("source.txt", *FIRST)
    write("target.txt", *SECOND)
    write("shorter.txt", *SECOND[:-1])
    return tmp_path


def write(name, *lines):
    with open(name, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def numbered(texts):
    return [f"{number}\t{text}" for number, text in enumerate(texts)]


PAIRS = ["--test", "pairs.tsv", *COLUMNS]
RETRIEVAL = ["--queries", "queries.tsv", "--documents", "documents.tsv"]
RETRIEVAL += ["--judgements", "judgements.tsv"]
BITEXT = ["--bitext", "source.txt", "target.txt"]


@pytest.fixture
def run(folder, directory, read):
    """A run whose texts were the first two pairs'."""
    shutil.copytree(directory, "run/student")
    config = {
        "verb": "distill",
        "recipe": "sentence_embedding",
        "data": {
            "files": ["text.txt"],
            "task": None,
            "sequence_length": LENGTH,
        },
    }
    write("run/config.json", json.dumps(config))
    write("run/metrics.jsonl")
    texts = [*FIRST[:2], *SECOND[:2]]
    store_texts(
        lambda: texts,
        lambda: choose_texts(texts),
        read,
        LENGTH,
        folder / "run/texts/train",
    )
    return folder / "run"


@pytest.fixture(scope="module")
def read():
    return tokenizer("bert")


@pytest.fixture(scope="module")
def vectors(embedder, read):
    """The vectors of `FIRST` and of `SECOND`."""
    return vectors_of(embedder, read)


def vectors_of(embedder, read):
    rows = data.encode(data.Examples(([*FIRST, *SECOND],)), read, LENGTH)
    every = np.arange(len(rows))
    return np.split(np.asarray(embedder(rows.inputs(every, LENGTH))), 2)


def similarities(vectors):
    return 1 - scipy.spatial.distance.cdist(*vectors, "cosine")


def evaluate(capsys, *words):
    """The last line, and the text before it."""
    capsys.readouterr()
    assert main(["evaluate", *map(str, words)]) == 0
    *before, last = capsys.readouterr().out.splitlines()
    return json.loads(last), "\n".join(before)


def test_pairs_are_measured_by_correlations(directory, vectors, folder, capsys):
    result, text = evaluate(capsys, directory, *PAIRS)
    own = np.diagonal(similarities(vectors))
    expected = {
        "spearman": scipy.stats.spearmanr(own, SCORES).statistic,
        "pearson": scipy.stats.pearsonr(own, SCORES).statistic,
    }
    assert result == {
        "task": "pairs",
        "split": "test",
        "examples": 6,
        "sequence_length": LENGTH,
        "metrics": pytest.approx(expected, abs=1e-5),
        "texts_cut": 0,
    }
    assert f"spearman: {expected['spearman']:.4f}" in text


def test_an_encoder_without_head_needs_a_pooling(
    embedder, read, folder, capsys
):
    backbone = models.backbone_of(embedder)
    models.save_encoder(backbone, read, folder / "encoder")
    assert main(["evaluate", "encoder", *PAIRS]) != 0
    result, _ = evaluate(capsys, "encoder", *PAIRS, "--pooling", "max")
    pooled = models.make_embedder(backbone, models.Pooling("max"))
    own = np.diagonal(similarities(vectors_of(pooled, read)))
    expected = scipy.stats.spearmanr(own, SCORES).statistic
    assert result["metrics"]["spearman"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.usefixtures("loaded_once")
def test_documents_are_ranked_for_queries(directory, vectors, folder, capsys):
    result, _ = evaluate(capsys, directory, *RETRIEVAL)
    ranks = [
        1 + int((row > row[number]).sum())
        for number, row in enumerate(similarities(vectors)[:5])
    ]
    assert len(set(ranks)) > 1
    assert result["metrics"] == pytest.approx(
        {
            "ndcg@10": np.mean([1 / np.log2(1 + rank) for rank in ranks]),
            "mrr@10": np.mean([1 / rank for rank in ranks]),
            "recall@1": np.mean([rank == 1 for rank in ranks]),
            "recall@10": 1,
            "recall@100": 1,
        }
    )
    assert result["queries"] == "queries.tsv"
    assert result["examples"] == 5
    assert (result["num_documents"], result["unjudged_queries"]) == (6, 1)


def test_prompts_and_similarity_are_followed(
    embedder, read, folder, tmp_path, capsys
):
    conventions = models.Conventions(
        {"query": "good ", "passage": "weak "}, similarity="manhattan"
    )
    models.save_embedder(
        embedder, read, tmp_path / "place", LENGTH, conventions
    )
    result, text = evaluate(capsys, tmp_path / "place", *RETRIEVAL)
    sides = [
        tasks.embed_texts(embedder, [f"{prompt} {one}" for one in texts], read)
        for prompt, texts in (("good", FIRST[:5]), ("weak", SECOND))
    ]
    distances = scipy.spatial.distance.cdist(*sides, "cityblock")
    ranks = (distances < np.diagonal(distances)[:, None]).sum(axis=1)
    assert result["metrics"]["ndcg@10"] == pytest.approx(
        np.mean(1 / np.log2(ranks + 2))
    )
    assert "Before the texts: 'good ' and 'weak '. Compared by" in text
    result, _ = evaluate(capsys, tmp_path / "place", *PAIRS)
    assert "prompts" not in result


@pytest.mark.usefixtures("loaded_once")
def test_truncated_texts_are_counted(directory, folder, capsys):
    write("target.txt", *SECOND[:-1], "a dull plot " * LENGTH)
    result, text = evaluate(capsys, directory, *BITEXT)
    assert result["texts_cut"] == 1
    assert f"1 different texts were cut to {LENGTH} tokens." in text


@pytest.mark.usefixtures("loaded_once")
def test_the_document_with_a_querys_id_is_ignored(run, vectors, capsys):
    write(
        "judgements.tsv",
        "query-id\tcorpus-id\tscore",
        *(f"{one}\t{other}\t1" for one in range(5) for other in (one, 5)),
    )
    result, _ = evaluate(capsys, run, *RETRIEVAL, "--ignore-same-id")
    ranks = [
        1 + sum(row[one] > row[5] for one in range(6) if one != number)
        for number, row in enumerate(similarities(vectors)[:5])
    ]
    mean = np.mean([1 / rank for rank in ranks])
    assert result["metrics"]["mrr@10"] == pytest.approx(mean)
    assert result["metrics"]["recall@100"] == 1


def test_a_collapsed_embedder_is_called_that(
    run, embedder, read, monkeypatch, capsys
):
    def constant(*_):
        return models.LoadedModel(
            lambda batch: np.ones((len(batch["token_ids"]), 16)), read, True
        )

    monkeypatch.setattr(models, "load_embedder", constant)
    monkeypatch.setattr(models, "embedding_width", lambda _: 16)
    monkeypatch.setattr(models, "num_positions", lambda _: LENGTH)
    result, text = evaluate(capsys, run, *RETRIEVAL)
    assert result["metrics"]["recall@1"] == pytest.approx(1 / 6)
    assert "The model has collapsed: it gives every text nearly" in text
    notes = " ".join(run_notes(read_run(run)))
    assert "the student has collapsed: it gives every text" in notes
    result, text = evaluate(capsys, run, *PAIRS)
    assert result["collapsed"] in text


@pytest.mark.usefixtures("loaded_once")
def test_translations_are_found_both_ways(directory, vectors, folder, capsys):
    result, _ = evaluate(capsys, directory, *BITEXT)
    both = similarities(vectors)
    forward, back = (
        np.mean(matrix.argmax(axis=1) == np.arange(6))
        for matrix in (both, both.T)
    )
    assert result["metrics"] == pytest.approx(
        {
            "accuracy": (forward + back) / 2,
            "source_to_target_accuracy": forward,
            "target_to_source_accuracy": back,
        }
    )
    assert result["bitext"] == ["source.txt", "target.txt"]


@pytest.mark.usefixtures("loaded_once")
def test_first_dimensions_are_measured_too(directory, vectors, folder, capsys):
    result, text = evaluate(
        capsys, directory, *PAIRS, "--dimensions", "4", "16"
    )
    own = np.diagonal(similarities([side[:, :4] for side in vectors]))
    expected = scipy.stats.spearmanr(own, SCORES).statistic
    found = result["metrics_by_dimensions"]
    assert found["4"]["spearman"] == pytest.approx(expected, abs=1e-5)
    assert found["16"] == pytest.approx(result["metrics"], abs=1e-6)
    assert f"first 4 dimensions: spearman {expected:.4f}" in text


@pytest.mark.usefixtures("loaded_once")
def test_texts_that_a_run_was_trained_on_are_counted(run, vectors, capsys):
    result, text = evaluate(capsys, run, *PAIRS)
    own = np.diagonal(similarities(vectors))[2:]
    expected = scipy.stats.spearmanr(own, SCORES[2:]).statistic
    others = result["metrics_without_training_texts"]
    assert others["spearman"] == pytest.approx(expected, abs=1e-5)
    # "superb" and "a weak plot" are of them, "a cast" is on both sides.
    assert (result["texts"], result["texts_in_training"]) == (11, 4)
    assert result["examples_in_training"] == 2
    assert "4 of 11 texts were also trained on, in 2 of 6 examples." in text
    (event,) = read_events(run, "measurement")
    assert event["arm"] == "student"
    assert event["metrics"] == result["metrics"]


@pytest.mark.usefixtures("loaded_once")
def test_texts_of_a_run_are_left_out_for_any_model(
    run, directory, capsys, monkeypatch
):
    own, _ = evaluate(capsys, run, *PAIRS)
    result, _ = evaluate(capsys, directory, *PAIRS, "--without-texts-of", run)
    assert result["metrics"] == own["metrics_without_training_texts"]
    assert (result["examples"], result["left_out"]) == (4, 2)
    found = ["evaluate", str(directory), *PAIRS, "--without-texts-of"]
    assert main([*found, str(directory)]) == 2
    assert "no record of the texts" in capsys.readouterr().err
    monkeypatch.setattr(
        embedder_evaluation, "_are_among", lambda some, _: [True] * len(some)
    )
    assert main([*found, str(run)]) == 2
    assert "trained on texts of all examples" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing: pairs with scores"),
        (["--task", "sentiment"], "'sentiment' has no pairs of texts with"),
        (["--bitext", "source.txt", "shorter.txt"], "numbers of lines"),
        ([*PAIRS, "--dimensions", "0"], "from 1 to 16"),
        ([*PAIRS, "--sequence-length", "999"], "--sequence-length 12"),
    ],
    ids=["nothing", "classes", "lengths", "dimensions", "positions"],
)
@pytest.mark.usefixtures("loaded_once")
def test_mistakes_are_reported(words, message, directory, folder, capsys):
    assert main(["evaluate", str(directory), *words]) == 2
    assert message in capsys.readouterr().err


MINILM = os.environ.get("MINILM", "~/.cache/kdkit/all-minilm-l6-v2")


@pytest.mark.large
def test_all_minilm_has_its_known_correlation(data_dir, capsys):
    """On the dev pairs of STS-B; 86.7 was measured in plain Keras."""
    model = pathlib.Path(MINILM).expanduser()
    if not model.is_dir():
        pytest.skip(f"no all-MiniLM-L6-v2 in {model}: set MINILM to its folder")
    if not (data_dir / "glue" / "STS-B" / "dev.tsv").is_file():
        pytest.skip(f"no STS-B in {data_dir}: set KDKIT_DATA to its folder")
    words = ["--task", "stsb", "--data-dir", data_dir / "glue"]
    result, _ = evaluate(capsys, model, "--pooling", "mean", *words)
    assert result["examples"] == 1500
    assert result["metrics"]["spearman"] == pytest.approx(0.867, abs=5e-4)
