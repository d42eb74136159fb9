"""What runs that leave a sentence encoder learn from and are measured on."""

import json
import shutil

import numpy as np
import pytest
from kit.adapter import command
from kit.embedders import (
    RANDOM,
    Saved,
    bitext_accuracy,
    changes,
    columns,
    contrastive,
    correlations,
    distill,
    like,
    lines,
    try_to_distill,
    vectors,
)
from kit.helpers import large_except, read_events
from kit.runs import ENCODED, LENGTH, ON_TEXTS, PAIRS

from kdkit import models


def test_the_texts_of_each_line_are_compared_with_its_source(
    workspace, tmp_path
):
    corpus = lines(workspace.path / "corpus.txt")
    train = {
        "en": corpus[:40],
        "de": ["", *(f"{text} good" for text in corpus[1:40])],
        "xx": [text[::-1] for text in corpus[:40]],
    }
    new = {
        "en": corpus[40:52],
        "de": ["", *(f"not {text}" for text in corpus[41:52])],
        "xx": [text[::-1] for text in corpus[40:52]],
    }
    files, dev = [], []
    for name in train:
        held_out = train[name][1:3] + new[name]
        for part, texts in ((files, train[name]), (dev, held_out)):
            part.append(tmp_path / f"{len(texts)}.{name}")
            part[-1].write_text("\n".join([*texts, ""]))
    words = (
        *("multilingual", *ENCODED, "--vocabulary-size", "80", "--control"),
        *("--parallel", *files, "--dev-parallel", *dev),
        *("--learning-rate", "2e-2"),
        *changes(student={**RANDOM, "hidden_dim": 32}, data__num_buckets=None),
    )
    saved = Saved(workspace, distill(workspace, words, tmp_path / "run"))
    (counts,) = read_events(saved.run, "unlabeled")
    found = [counts[one] for one in ("rows", "dropped", "empty")]
    assert found == [119, 6, 1]
    sides = [lines(file) for file in dev]
    found = {
        name: saved.vectors("student", side)
        for name, side in zip(train, sides, strict=True)
    }
    has_one = np.array([*map(bool, sides[1])])
    expected = {
        "bitext_accuracy_xx": bitext_accuracy(found["en"], found["xx"]),
        "bitext_accuracy_de": bitext_accuracy(
            found["en"][has_one], found["de"][has_one]
        ),
    }
    expected["bitext_accuracy"] = np.mean([*expected.values()])
    best = saved.best("student")
    assert {name: best[name] for name in expected} == pytest.approx(expected)
    # The control compares a translation with its source, and a source with its
    # translations in turn.
    pairs = []
    for row, texts in enumerate(zip(*sides, strict=True)):
        source, *others = filter(None, texts)
        pairs.append((source, others[row % len(others)]))
        pairs += [(other, source) for other in others]
    loss = contrastive(
        *(saved.vectors("control", side) for side in zip(*pairs, strict=True))
    )
    assert saved.best("control")["val_loss"] == pytest.approx(loss, rel=1e-3)


def test_own_queries_and_pairs_to_measure_on_are_left_out(workspace, tmp_path):
    rows = [*zip(*columns(workspace.path / "candidates.tsv"), strict=True)]
    rows = [[*row, rows[number - 1][2]] for number, row in enumerate(rows)]
    known = columns(workspace.path / "pairs.tsv")[0][0]
    rows[7][2] = known.upper()
    for name, numbers in (("dev", [0, 5]), ("train", [*range(40), 3])):
        chosen = [
            {"query": query, "positive": one, "negatives": others}
            for query, one, *others in (rows[number] for number in numbers)
        ]
        file = tmp_path / f"{name}.jsonl"
        file.write_text("\n".join(map(json.dumps, chosen)))
    words = (
        *("reranker_to_embedder", "--teacher", "@teacher"),
        *("--candidates", tmp_path / "train.jsonl", "--pooling", "cls"),
        *("--dev-candidates", tmp_path / "dev.jsonl", "--dev", *PAIRS),
        *("--parity", "margin_mse", "--epochs", "1", "--max-length", LENGTH),
        *changes(
            student=RANDOM,
            data__scale=3,
            data__num_candidates=2,
            data__pair_length=32,
            training__jit_compile=False,
        ),
    )
    saved = Saved(workspace, distill(workspace, words, tmp_path / "run"))
    (counts,) = read_events(saved.run, "unlabeled")
    assert (counts["dropped"], counts["repeated"]) == (3, 1)
    best = saved.best("student")
    assert "val_logit_kl_divergence" not in best
    assert {"spearman", "mrr@10"} < best.keys()
    *_, last = read_events(saved.run, "evaluation")
    assert (last["split"], last["examples"]) == ("dev", 2)
    student = models.load_embedder(saved.run / "student").model
    assert models.pooling_of(student) == models.Pooling("cls")
    for verb in ("export", "evaluate"):  # the teacher's scores are no vectors
        answer = command([verb, saved.run, "--arm", "teacher"])
        assert (answer.status, "--task" in answer.err) == (2, True)


DEFAULT_PROMPTS = (None, "query")


@pytest.fixture(scope="module")
def teachers(workspace, tmp_path_factory):
    """A teacher with conventions, one that is broken, and a mere encoder."""
    folder = tmp_path_factory.mktemp("teachers")
    shutil.copytree(workspace.path / "encoder", folder / "encoder")
    given = models.load_embedder(folder / "encoder", "mean")
    backbone, read = models.backbone_of(given.model), given.tokenizer
    model = models.make_embedder(backbone, models.Pooling("cls", False))
    for default in DEFAULT_PROMPTS:
        own = models.Conventions(
            {"query": "the ", "corpus": "a "}, default, similarity="dot"
        )
        models.save_embedder(model, read, folder / f"dot {default}", 32, own)
    table = models.token_embeddings(given.model).copy()
    table[7] = np.nan
    backbone.token_embedding.embeddings.assign(table)
    models.save_embedder(given.model, read, folder / "nan", 32)
    return folder


@pytest.mark.parametrize("default", large_except(DEFAULT_PROMPTS, "query"))
def test_a_teachers_conventions_are_learned_without_texts_of_dev(
    default, workspace, teachers, tmp_path
):
    saved = Saved(workspace, tmp_path / "run")
    first, second, scores = saved.pairs
    new = [f"good {text}" for text in saved.corpus[:4]]
    file, teacher = tmp_path / "a.txt", teachers / f"dot {default}"
    file.write_text("\n".join([first[0].upper(), second[3], "", *new]))
    words = (
        *("sentence_embedding", *ON_TEXTS, "--teacher", teacher),
        *("--texts", file, "--student", "@encoder", "--parity", "mse"),
        *changes(pooling=None),
    )
    distill(workspace, words, saved.run)
    student = models.load_embedder(saved.run)
    conventions = models.load_embedder(teacher).conventions
    assert student.conventions == conventions
    assert models.pooling_of(student.model) == models.Pooling("cls", False)
    (counts,) = read_events(saved.run, "unlabeled")
    found = [counts[one] for one in ("rows", "dropped", "empty")]
    assert found == [6, 2, 1]
    lengths, ids = (
        np.fromfile(saved.run / "texts/train" / name, "int32")
        for name in ("lengths", "token_ids")
    )
    firsts = ids[np.cumsum(lengths) - lengths + 1].tolist()
    prompts = [
        student.tokenizer.token_to_id(one.strip())
        for one in conventions.training_prompts
    ]
    assert firsts == 4 // len(prompts) * prompts
    measured, *_ = read_events(saved.run, "evaluation")
    prompt = conventions.prompt()
    sides = [
        vectors(teacher, [prompt + text for text in side])
        for side in (first, second)
    ]
    products = np.sum(sides[0] * sides[1], axis=1)
    assert measured["arm"] == "teacher"
    assert measured["metrics"] == pytest.approx(
        correlations(products, scores), abs=1e-5
    )
    file.write_text("the film is bad\n")
    answer = try_to_distill(workspace, words, saved.run)
    assert (answer.status, "texts has changed" in answer.err) == (2, True)


def from_teacher(name, place, **more):
    return like(name, teacher=str(place), pooling=None, **more)


def untranslated(folder):
    files = [folder / f"val.{name}" for name in ("en", "xx")]
    for file, text in zip(files, ("a dog\n", "\n"), strict=True):
        file.write_text(text)
    return like("multilingual", data__held_out=[*map(str, files)])


MISTAKES = {
    "compared by dot": lambda at, _: from_teacher(
        "sentence_embedding", at / "dot None"
    ),
    "'the '": lambda at, _: from_teacher("multilingual", at / "dot None"),
    "all finite": lambda at, _: from_teacher(
        "sentence_embedding", at / "nan", student=RANDOM
    ),
    "'another'": lambda *_: like(
        "sentence_embedding", student__copy_from="another"
    ),
    "measure on in xx": lambda _, folder: untranslated(folder),
    "not a cross-encoder": lambda at, _: from_teacher(
        "reranker_to_embedder", at / "encoder"
    ),
    "data.pair_length=32": lambda *_: like(
        "reranker_to_embedder", data__pair_length=64
    ),
}


@pytest.mark.parametrize("named", MISTAKES)
def test_what_would_train_something_else_is_refused(
    named, workspace, teachers, tmp_path
):
    words = MISTAKES[named](teachers, tmp_path)
    answer = try_to_distill(workspace, words, tmp_path / "run")
    assert answer.status == 2, answer
    assert named in answer.err
    assert not [*tmp_path.glob("run/student")]


def test_the_doctor_writes_nothing(workspace, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    workspace.run("doctor", "sentence_embedding", *ON_TEXTS)
    words = workspace.words(("sentence_embedding", *ON_TEXTS))
    answer = command(["doctor", *words, "--teacher", tmp_path / "nothing"])
    assert (answer.status, "nothing" in answer.err) == (2, True)
    assert not [*tmp_path.iterdir()]


@pytest.mark.large
def test_a_given_tokenizer_or_a_checkpoint_with_its_own(workspace, tmp_path):
    place = str(workspace.make("multilingual") / "student")
    given = {"data__tokenizer": place}
    own = {"data__tokenizer": None, "student": {"checkpoint": place}}
    for name, values in (("given", given), ("own", own)):
        words = like("multilingual", **values)
        run = distill(workspace, words, tmp_path / name)
        assert not (run / "tokenizer").exists()
        read = models.load_embedder(run / "student").tokenizer
        known = models.load_tokenizer(place)
        assert read.get_vocabulary() == known.get_vocabulary()
