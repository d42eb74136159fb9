"""`kdkit evaluate`, `export` and `benchmark` of sentence encoders."""

import dataclasses
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import scipy.spatial
from kit.adapter import command
from kit.embedders import correlations, cosines, lines, vectors
from kit.helpers import read_events, units
from kit.runs import LENGTH

from kdkit import export, models, tasks

NEW = ["a man is good", "two dog not", "bad film", "the plot was fine", "men"]
SCORES = [4.5, 3.0, 3.5, 0.0, 5.0, 1.0]
COLUMNS = ["--text-column", "a", "b", "--label-column", "score"]
ON_PAIRS = ["--test", "pairs.tsv", *COLUMNS]
RETRIEVAL = ["--queries", "queries.tsv", "--documents", "documents.tsv"]
RETRIEVAL += ["--judgements", "judgements.tsv"]
BITEXT = ["--bitext", "first.txt", "second.txt"]


@dataclasses.dataclass
class Place:
    """A working directory with a run, texts, and the vectors of the texts."""

    run: pathlib.Path
    first: list
    second: list

    def similarities(self, width=None, pooling=None, of=None):
        one, two = self.vectors(of or self.run / "student", pooling)
        one, two = one[:, :width], two[:, :width]
        return 1 - scipy.spatial.distance.cdist(one, two, "cosine")

    def vectors(self, of, pooling=None):
        return [
            vectors(of, side, pooling) for side in (self.first, self.second)
        ]


def write(name, *rows):
    pathlib.Path(name).write_text("".join(f"{row}\n" for row in rows))


def numbered(texts):
    return ["_id\ttext", *(f"{row}\t{text}" for row, text in enumerate(texts))]


@pytest.fixture(scope="module")
def copied(workspace, tmp_path_factory):
    """A copy of a shared run with a file, as verbs note what they measure."""
    run = tmp_path_factory.mktemp("runs") / "run"
    precision = ("--precision", "int8")
    exported = workspace.exported_run("sentence_embedding", *precision)
    return shutil.copytree(exported, run)


@pytest.fixture
def place(copied, workspace, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained = lines(workspace.path / "corpus.txt")[-4:]
    first = [*trained[:2], *NEW[:3], "yet"]
    second = [*trained[2:], *NEW[3:], NEW[2], "a dog sleeps"]
    rows = zip(first, second, map(str, SCORES), strict=True)
    write("pairs.tsv", "a\tb\tscore", *map("\t".join, rows))
    write("queries.tsv", *numbered(first))
    write("documents.tsv", *numbered(second))
    judgements = (f"{one}\t{one}\t1" for one in range(5))
    write("judgements.tsv", "query-id\tcorpus-id\tscore", *judgements)
    write("first.txt", *first)
    write("second.txt", *second)
    write("shorter.txt", *second[:-1])
    return Place(copied, first, second)


def evaluate(*words):
    """The last line, and all that was printed."""
    answer = command(["evaluate", *words])
    assert answer.status == 0, answer
    return json.loads(answer.out.splitlines()[-1]), answer.out


def test_pairs_are_measured_with_and_without_texts_of_training(place):
    result, text = evaluate(place.run, *ON_PAIRS, "--dimensions", "4", "32")
    own = np.diagonal(place.similarities())
    expected = correlations(own, SCORES)
    assert result["metrics"] == pytest.approx(expected, abs=1e-5)
    assert f"spearman: {expected['spearman']:.4f}" in text
    about = [result[name] for name in ("task", "split", "sequence_length")]
    assert about == ["pairs", "test", LENGTH]
    short = correlations(np.diagonal(place.similarities(4)), SCORES)
    found = result["metrics_by_dimensions"]
    assert found["4"] == pytest.approx(short, abs=1e-5)
    assert found["32"] == pytest.approx(result["metrics"], abs=1e-6)
    # Two texts of each side were; one more is on both sides.
    names = ("texts", "texts_in_training", "examples", "examples_in_training")
    assert [result[name] for name in names] == [11, 4, 6, 2]
    others = result["metrics_without_training_texts"]
    expected = correlations(own[2:], SCORES[2:])
    assert others == pytest.approx(expected, abs=1e-5)
    event = read_events(place.run, "measurement")[-1]
    assert (event["arm"], event["metrics"]) == ("student", result["metrics"])
    # The same texts are left out for any model.
    words = [place.run / "student", *ON_PAIRS, "--without-texts-of"]
    result, _ = evaluate(*words, place.run)
    assert result["metrics"] == pytest.approx(others, abs=1e-6)
    assert (result["examples"], result["left_out"]) == (4, 2)


def test_an_encoder_without_head_needs_a_pooling(place, workspace):
    encoder = workspace.path / "encoder"
    assert command(["evaluate", encoder, *ON_PAIRS]).status == 2
    result, _ = evaluate(encoder, *ON_PAIRS, "--pooling", "max")
    own = np.diagonal(place.similarities(of=encoder, pooling="max"))
    expected = correlations(own, SCORES)
    assert result["metrics"] == pytest.approx(expected, abs=1e-5)


def ranking(similarities, relevant):
    """The metrics of one relevant document for each query, by rank."""
    pairs = zip(similarities[: len(relevant)], relevant, strict=True)
    ranks = 1 + np.array([sum(row > row[one]) for row, one in pairs])
    return {
        "ndcg@10": np.mean(1 / np.log2(1 + ranks)),
        "mrr@10": np.mean(1 / ranks),
        "recall@1": np.mean(ranks == 1),
        "recall@10": 1,
        "recall@100": 1,
    }


def test_documents_are_ranked_for_queries(place):
    result, _ = evaluate(place.run / "student", *RETRIEVAL)
    similarities = place.similarities()
    expected = ranking(similarities, range(5))
    assert 0 < expected["mrr@10"] < 1
    assert result["metrics"] == pytest.approx(expected)
    names = ("queries", "examples", "num_documents", "unjudged_queries")
    assert [result[name] for name in names] == ["queries.tsv", 5, 6, 1]
    judgements = (f"{q}\t{d}\t1" for q in range(5) for d in (q, 5))
    write("judgements.tsv", "query-id\tcorpus-id\tscore", *judgements)
    words = [place.run / "student", *RETRIEVAL, "--ignore-same-id"]
    np.fill_diagonal(similarities[:5], -1)
    expected = ranking(similarities, 5 * [5])
    assert evaluate(*words)[0]["metrics"] == pytest.approx(expected)


def test_prompts_and_similarity_are_followed(place, tmp_path):
    loaded = models.load_embedder(place.run / "student")
    conventions = models.Conventions(
        {"query": "good ", "passage": "bad "}, similarity="manhattan"
    )
    model, read = loaded.model, loaded.tokenizer
    models.save_embedder(model, read, tmp_path / "own", LENGTH, conventions)
    result, text = evaluate(tmp_path / "own", *RETRIEVAL)
    sides = [
        vectors(place.run / "student", [f"{prompt} {one}" for one in side])
        for prompt, side in (("good", place.first), ("bad", place.second))
    ]
    distances = scipy.spatial.distance.cdist(*sides, "cityblock")
    assert result["metrics"] == pytest.approx(ranking(-distances, range(5)))
    assert "'good ' and 'bad '" in text
    assert "prompts" not in evaluate(tmp_path / "own", *ON_PAIRS)[0]


def test_translations_are_found_both_ways(place):
    place.second[-1] = "a man runs " * LENGTH
    write("second.txt", *place.second)
    result, text = evaluate(place.run / "student", *BITEXT)
    both = place.similarities()
    forward, back = (
        np.mean(one.argmax(axis=1) == np.arange(6)) for one in (both, both.T)
    )
    assert result["metrics"] == pytest.approx(
        {
            "accuracy": (forward + back) / 2,
            "source_to_target_accuracy": forward,
            "target_to_source_accuracy": back,
        }
    )
    assert result["bitext"] == BITEXT[1:]
    assert result["texts_cut"] == 1
    assert f"1 different texts were cut to {LENGTH} tokens." in text


def test_a_collapsed_embedder_is_called_that(place, workspace, tmp_path):
    run = workspace.copy("static_embedding", tmp_path / "run")
    loaded = models.load_embedder(run / "student")
    weight = loaded.model.weights[0]
    weight.assign(np.ones(weight.shape))
    shutil.rmtree(run / "student")
    models.save_embedder(loaded.model, loaded.tokenizer, run / "student", 16)
    result, text = evaluate(run, *ON_PAIRS)
    assert result["collapsed"] in text
    result, text = evaluate(run, *RETRIEVAL)
    assert result["metrics"]["recall@1"] == pytest.approx(1 / 6)
    assert "The model has collapsed" in text
    assert "student has collapsed" in command(["report", run]).out


def test_a_runs_files_are_compared_on_its_texts_and_measured(place):
    file = place.run / "exports" / "student-int8.tflite"
    event, *_ = read_events(place.run, "export")
    assert event["dimensions"] == 32
    assert 0.99 < event["smallest_cosine"] < 1
    card = (place.run / "exports" / "README.md").read_text()
    assert "Data: corpus.txt" in card
    result, _ = evaluate(file, *ON_PAIRS)
    opened = export.open_file(file)
    read = models.load_tokenizer(place.run / "student")
    sides = [
        tasks.embed_texts(opened, side, read, LENGTH)
        for side in (place.first, place.second)
    ]
    expected = correlations(cosines(*sides), SCORES)
    assert result["metrics"] == pytest.approx(expected, abs=1e-5)
    words = ["benchmark", place.run, "--batch-size", "2", "--runs", "3"]
    answer = command(words)
    (result,) = json.loads(answer.out.splitlines()[-1])["results"]
    expected = 2 * 1000 / result["median_ms"]
    assert result["sentences_per_second"] == pytest.approx(expected)
    (event,) = read_events(place.run, "latency")
    assert event["sentences_per_second"] == result["sentences_per_second"]


def test_the_first_dimensions_of_a_table_are_exported(place, workspace):
    student = workspace.make("static_embedding") / "student"
    shutil.copytree(student, "table")
    words = ["export", "table", "--texts", "first.txt", "--dimensions", "5"]
    answer = command([*words, "--precision", "fp32"])
    assert answer.status == 0, answer
    file = export.open_file("exports/table-5d-fp32.tflite")
    read = models.load_tokenizer("table")
    found = tasks.embed_texts(file, place.first, read, LENGTH)
    expected = units(vectors("table", place.first)[:, :5])
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*difficult sample texts")
def test_an_encoder_becomes_an_embedder_by_its_pooling(place, workspace):
    words = ["--format", "sentence_transformers", "--sequence-length", "8"]
    encoder = workspace.path / "encoder"
    words = ["export", encoder, *words, "--pooling", "cls", "--output", "files"]
    answer = command(words)
    assert answer.status == 0, answer
    assert "Pass --texts FILE." in answer.out
    (path,) = pathlib.Path("files").glob("*sentence_transformers")
    assert models.load_embedder(path).sequence_length == 8
    expected = vectors(encoder, NEW, "cls")
    np.testing.assert_allclose(vectors(path, NEW), expected, atol=1e-5)


MISTAKES = {
    "Missing: pairs with scores": "evaluate MODEL",
    "'sentiment' has no pairs": "evaluate MODEL --task sentiment",
    "numbers of lines": "evaluate MODEL --bitext first.txt shorter.txt",
    "from 1 to 32": f"evaluate MODEL {' '.join(ON_PAIRS)} --dimensions 0",
    "--sequence-length 32": (
        f"evaluate MODEL {' '.join(ON_PAIRS)} --sequence-length 999"
    ),
    "no record of the texts": (
        f"evaluate MODEL {' '.join(ON_PAIRS)} --without-texts-of MODEL"
    ),
    "trained on texts of all examples": (
        "evaluate MODEL --test trained.tsv --text-column a b --label-column "
        "score --without-texts-of RUN"
    ),
    "--task is not read": "export MODEL --task sst2 --logits",
    "--bundle is not read": "export MODEL --bundle",
    "dimensions=33": "export MODEL --dimensions 33",
    "mean": "export MODEL --pooling max",
    "none.txt": "export MODEL --texts none.txt",
}


@pytest.mark.parametrize("named", MISTAKES)
def test_a_mistake_is_one_line(named, place):
    rows = lines(pathlib.Path("pairs.tsv"))[:3]
    write("trained.tsv", *rows)
    shutil.copytree(place.run / "student", "MODEL")
    words = MISTAKES[named].replace("RUN", str(place.run)).split()
    answer = command(words)
    assert answer.status == 2, answer
    assert named in answer.err
    assert "Traceback" not in answer.err
    assert not pathlib.Path("exports").exists()


MINILM = os.environ.get("MINILM", "~/.cache/kdkit/all-minilm-l6-v2")


@pytest.mark.large
def test_all_minilm_has_its_known_correlation(data_dir):
    """On the dev pairs of STS-B; 86.7 was measured in plain Keras."""
    model = pathlib.Path(MINILM).expanduser()
    if not model.is_dir():
        pytest.skip(f"no all-MiniLM-L6-v2 in {model}: set MINILM to its folder")
    if not (data_dir / "glue" / "STS-B" / "dev.tsv").is_file():
        pytest.skip(f"no STS-B in {data_dir}: set KDKIT_DATA to its folder")
    words = ["--task", "stsb", "--data-dir", data_dir / "glue"]
    result, _ = evaluate(model, "--pooling", "mean", *words)
    assert result["examples"] == 1500
    assert result["metrics"]["spearman"] == pytest.approx(0.867, abs=5e-4)
