"""Runs in which a sentence encoder learns a cross-encoder's scores."""

import dataclasses
import json

import keras
import numpy as np
import pytest
from kit.embedders import distill_in_two_parts, make_large, same_weights
from kit.helpers import read_events

from kdkit import data, models
from kdkit.cli.main import main
from kdkit.data.stored_texts import read_hashes, text_hash
from kdkit.errors import UsageError
from kdkit.models import Head
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.settings import override
from kdkit.training import (
    ModelSettings,
    candidate_data,
    distill,
)

LENGTH, PAIR_LENGTH, SCALE = 24, 40, 20.0
QUERIES, CANDIDATES = 24, 3
SIZES = {
    "num_layers": 2,
    "hidden_dim": 16,
    "num_heads": 2,
    "intermediate_dim": 24,
    "max_sequence_length": 48,
    "dropout": 0.1,
}


def tokenizer():
    return models.word_piece_tokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )


def save_teacher(path, num_classes=1):
    """A tiny cross-encoder with large random weights."""
    keras.utils.set_random_seed(1)
    backbone = models.student(
        SIZES, vocabulary_size=tokenizer().vocabulary_size()
    )
    model = models.add_head(backbone, Head("sequence", num_classes))
    make_large(model)
    models.save_preset(model, tokenizer(), path, PAIR_LENGTH)
    return path


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    return save_teacher(tmp_path_factory.mktemp("teacher") / "teacher")


@pytest.fixture(scope="module")
def rows():
    return data.load_candidates("train", QUERIES, CANDIDATES)


@pytest.fixture(scope="module")
def file(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "train.jsonl"
    path.write_text(lines(rows))
    return path


def lines(rows):
    return "".join(
        json.dumps({"query": query, "positive": row[0], "negatives": row[1:]})
        + "\n"
        for query, row in zip(rows.queries, rows.documents, strict=True)
    )


@pytest.fixture(scope="module")
def settings(teacher, file):
    made = smoke.embedder(RECIPES["reranker_to_embedder"])
    made = dataclasses.replace(
        made,
        teacher=str(teacher),
        student=ModelSettings(copy_from="teacher", copy_layers=(2,)),
        has_control=True,
    )
    return override(
        made,
        [f'data.files=["{file}"]', f"data.sequence_length={LENGTH}",
         f"data.pair_length={PAIR_LENGTH}", "data.num_buckets=2",
         "data.held_out_every=4", "stages.0.batch_size=4",
         "data.task=similarity"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "retriever"
    distill(settings, path)
    return path


def teacher_scores(teacher, rows):
    """The classifier's own logits on each query with each candidate."""
    loaded = models.load_classifier(teacher, 1)
    pairs = [
        (query, one)
        for query, row in zip(rows.queries, rows.documents, strict=True)
        for one in row
    ]
    columns = tuple(map(list, zip(*pairs, strict=True)))
    encoded = data.encode(data.Examples(columns), tokenizer(), PAIR_LENGTH)
    numbers = np.arange(len(pairs))
    logits = loaded.model(encoded.inputs(numbers, PAIR_LENGTH))
    return np.asarray(logits).reshape(-1, CANDIDATES)


def student_scores(place, rows):
    """The scaled products of a saved embedder's vectors."""
    loaded = models.load_embedder(place)

    def vectors(texts):
        encoded = data.encode(data.Examples((texts,)), tokenizer(), LENGTH)
        inputs = encoded.inputs(np.arange(len(texts)), LENGTH)
        return np.asarray(loaded.model(inputs, training=False))

    documents = [one for row in rows.documents for one in row]
    documents = vectors(documents).reshape(len(rows), CANDIDATES, -1)
    return SCALE * np.einsum("qd,qcd->qc", vectors(rows.queries), documents)


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def mrr(scores):
    ranks = 1 + (scores[:, 1:] > scores[:, :1]).sum(axis=1)
    return np.mean(1 / ranks)


def test_the_logged_losses_are_those_of_the_saved_student(
    finished, teacher, rows
):
    """By NumPy, from the classifier's logits and the embedder's vectors."""
    held_out = rows.take(range(0, QUERIES, 4))
    theirs = teacher_scores(teacher, held_out)
    ours = student_scores(finished / "student", held_out)
    margins = [one[:, :1] - one[:, 1:] for one in (theirs, ours)]
    log_ratios = np.log(softmax(theirs)) - np.log(softmax(ours))
    epoch, of_control = read_events(finished, "epoch")
    logs = epoch["logs"]
    assert logs["val_margin_mse"] == pytest.approx(
        np.mean((margins[0] - margins[1]) ** 2), rel=1e-4
    )
    assert logs["val_logit_kl_divergence"] == pytest.approx(
        (softmax(theirs) * log_ratios).sum(axis=-1).mean(), rel=1e-3
    )
    untaught = student_scores(finished / "control", held_out)
    assert of_control["logs"]["val_loss"] == pytest.approx(
        -np.log(softmax(untaught)[:, 0]).mean(), rel=1e-4
    )


def test_teacher_student_and_control_are_measured(finished, teacher, rows):
    held_out = rows.take(range(0, QUERIES, 4))
    found = {
        (one["arm"], one["stage"]): one["metrics"]
        for one in read_events(finished, "evaluation")
    }
    assert list(found) == [
        ("teacher", None),
        ("student", None),
        ("student", "distillation"),
        ("control", "ranking"),
    ]
    assert found["teacher", None]["mrr@10"] == pytest.approx(
        mrr(teacher_scores(teacher, held_out))
    )
    for arm, stage in (("student", "distillation"), ("control", "ranking")):
        metrics = found[arm, stage]
        assert list(metrics) == ["mrr@10", "accuracy", "spearman", "pearson"]
        assert metrics["mrr@10"] == pytest.approx(
            mrr(student_scores(finished / arm, held_out))
        )
    (counts,) = read_events(finished, "unlabeled")
    assert (counts["rows"], counts["dropped"]) == (QUERIES, 0)
    assert counts["compared_with"] == ["similarity dev"]


def test_the_cache_has_one_logit_for_each_pair(finished):
    index = json.loads((finished / "teacher_cache" / "index.json").read_text())
    assert index["entries"]["logits"]["shape"] == [1]
    assert sum(one["rows"] for one in index["shards"]) == QUERIES * CANDIDATES


def test_a_stopped_run_continues_with_the_same_bits(
    settings, finished, tmp_path
):
    distill_in_two_parts(settings, tmp_path / "run", saves=3)
    for arm in ("student", "control"):
        assert same_weights(tmp_path / "run", finished, arm)


def test_the_texts_of_the_run_are_recorded(finished, rows):
    hashes = set(read_hashes(finished / "texts" / "train").tolist())
    trained = rows.take(row for row in range(QUERIES) if row % 4)
    assert hashes == set(
        map(text_hash, candidate_data.different_texts(trained))
    )


@pytest.mark.large
def test_own_queries_to_measure_on_are_left_out_of_training(
    settings, rows, file, tmp_path, capsys
):
    dev = tmp_path / "dev.jsonl"
    dev.write_text(lines(rows.take([0, 5])))
    repeated = tmp_path / "train.jsonl"
    repeated.write_text(file.read_text() + lines(rows.take([3])))
    other = override(
        dataclasses.replace(settings, has_control=False, stages=(
            RECIPES["reranker_to_embedder"].variant("margin_mse").stages
        ), student=ModelSettings(**SIZES), pooling="cls"),
        [f'data.files=["{repeated}"]', f'data.held_out=["{dev}"]',
         "data.task=null", "data.scale=3", "data.num_candidates=2",
         "stages.0.batch_size=8"],
    )  # fmt: skip
    distill(other, tmp_path / "run")
    (counts,) = read_events(tmp_path / "run", "unlabeled")
    assert (counts["dropped"], counts["repeated"]) == (2, 1)
    (epoch,) = read_events(tmp_path / "run", "epoch")
    assert "logit_kl_divergence" not in epoch["logs"]
    *_, last = read_events(tmp_path / "run", "evaluation")
    assert (last["split"], last["examples"]) == ("dev", 2)
    pooling = models.pooling_of(
        models.load_embedder(tmp_path / "run" / "student").model
    )
    assert pooling == models.Pooling("cls")
    for verb in ("export", "evaluate"):  # its scores are not vectors
        assert main([verb, str(tmp_path / "run"), "--arm", "teacher"]) == 2
        assert "Missing: --task NAME" in capsys.readouterr().err


def test_texts_of_scored_pairs_are_left_out(rows):
    known = {text_hash(rows.documents[3][2].upper())}
    chosen = candidate_data.choose_rows(rows, known, set(), every=4)
    assert chosen.counts["dropped"] == 1
    assert 3 not in chosen.train
    assert chosen.held_out[:2] == [0, 5]


def test_teachers_without_a_trained_head_are_refused(settings, tmp_path):
    backbone = models.student(
        SIZES, vocabulary_size=tokenizer().vocabulary_size()
    )
    models.save_encoder(backbone, tokenizer(), tmp_path / "encoder")
    wrong = dataclasses.replace(settings, teacher=str(tmp_path / "encoder"))
    with pytest.raises(UsageError, match="not a cross-encoder"):
        distill(wrong, tmp_path / "run")
    short = override(settings, ["data.pair_length=64"])
    with pytest.raises(UsageError, match="data.pair_length=48"):
        distill(short, tmp_path / "other")


def test_two_classes_are_one_score(tmp_path):
    place = save_teacher(tmp_path / "teacher", num_classes=2)
    loaded = models.load_reranker(place)
    assert loaded.model.output_shape[-1] == 2
    assert loaded.has_trained_head
