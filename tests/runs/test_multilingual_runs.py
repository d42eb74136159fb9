"""Runs that teach a sentence encoder further languages."""

import dataclasses
import itertools
import json
import logging
import pathlib

import numpy as np
import pytest
from kit.embedders import distill_in_two_parts, same_weights, save_teacher
from kit.helpers import read_events

from kdkit import data, models, tasks
from kdkit.data.stored_texts import read_hashes
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.runs import runner, smoke
from kdkit.settings import override
from kdkit.training import (
    ModelSettings,
    TranslationsSettings,
    distill,
    translations,
)

LINES, LENGTH, PIECES = 64, 24, 160
SIZES = {
    "num_layers": 2,
    "hidden_dim": 24,
    "num_heads": 2,
    "intermediate_dim": 32,
    "max_sequence_length": 32,
    "dropout": 0.1,
}
NAMES = ("en", "de", "xx")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Parallel files in English, German and backwards."""
    folder = tmp_path_factory.mktemp("texts")
    pairs = [*itertools.islice(data.generated_pairs(), LINES)]
    columns = [
        [one for one, _ in pairs],
        [two for _, two in pairs],
        [one[::-1] for one, _ in pairs],
    ]
    columns[1][3] = ""  # without a translation
    for name, lines in zip(NAMES, columns, strict=True):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"train.{name}").write_text(text, encoding="utf-8")
    return tuple(str(folder / f"train.{name}") for name in NAMES)


def lines_of(file):
    return pathlib.Path(file).read_text(encoding="utf-8").split("\n")[:-1]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    path = tmp_path_factory.mktemp("teacher") / "teacher"
    return save_teacher(path, SIZES, LENGTH)


@pytest.fixture(scope="module")
def settings(teacher, files):
    made = smoke.embedder(RECIPES["multilingual"])
    made = dataclasses.replace(
        made,
        teacher=str(teacher),
        pooling=None,
        data=TranslationsSettings(
            files,
            held_out_every=8,
            vocabulary_size=PIECES,
            sequence_length=LENGTH,
            num_buckets=2,
        ),
        student=ModelSettings(copy_from="teacher", copy_layers=(1, 2)),
    )
    return override(
        made,
        ["stages.0.batch_size=16", "stages.0.epochs=2",
         "stages.0.learning_rate=0.005", "has_control=true"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "multilingual"
    distill(settings, path)
    return path


def test_the_student_finds_translations(finished):
    found = {
        (one["arm"], one["stage"], one["epoch"]): one["metrics"]
        for one in read_events(finished, "evaluation")
    }
    start = found["student", None, None]
    assert found["control", None, None] == start
    assert ("teacher", None, None) in found
    names = ["bitext_accuracy", "bitext_accuracy_de", "bitext_accuracy_xx"]
    assert list(start) == names
    for metrics in found.values():
        mean = np.mean([metrics[name] for name in names[1:]])
        assert metrics[names[0]] == pytest.approx(mean)
    (end,) = read_events(finished, "run_finished")
    assert end["best"]["student"]["metrics"][names[0]] > start[names[0]]
    losses = [one["logs"]["loss"] for one in read_events(finished, "epoch")]
    assert losses[1] < losses[0]


def test_the_metric_is_that_of_the_saved_student(finished, files):
    texts = [lines_of(file) for file in files]
    rows = [*range(0, LINES, 8)]  # held out: the lines differ
    loaded = models.load_embedder(finished / "student")
    assert loaded.tokenizer.vocabulary_size() == PIECES
    vectors = [
        tasks.embed_texts(
            loaded.model, [side[row] for row in rows], loaded.tokenizer, LENGTH
        )
        for side in texts
    ]
    (end,) = read_events(finished, "run_finished")
    metrics = end["best"]["student"]["metrics"]
    for name, side in zip(NAMES[1:], vectors[1:], strict=True):
        expected = tasks.bitext_metrics(vectors[0], side)["accuracy"]
        assert metrics[f"bitext_accuracy_{name}"] == pytest.approx(expected)


def test_only_texts_of_the_first_file_are_run_by_the_teacher(finished):
    index = json.loads((finished / "teacher_cache" / "index.json").read_text())
    assert list(index["entries"]) == ["sentence_embedding"]
    assert sum(one["rows"] for one in index["shards"]) == LINES
    hashes = read_hashes(finished / "texts" / "train")
    assert len(hashes) == 3 * (LINES - LINES // 8) - 1
    (counts,) = read_events(finished, "unlabeled")
    assert (counts["rows"], counts["empty"]) == (3 * LINES - 1, 1)


def test_every_text_is_compared_with_its_own_source(settings, tmp_path):
    alone = dataclasses.replace(settings, has_control=False)
    parts = runner.parts_of_embedder(alone, tmp_path)
    parts.build()
    parts.open_caches()
    source, _ = translations.load_translations(
        alone.data, None, parts.tokenizer, parts.teacher.tokenizer, tmp_path
    )
    (stage,) = alone.stages
    stream = source.training_stream(
        stage, 0, parts.caches.features(stage, parts.student)
    )
    lines = [*alone.data.lines()]
    known = {
        tuple(map(int, parts.tokenizer(text)[: LENGTH - 2])): line[0]
        for line in lines
        for text in line
    }
    batch = next(iter(stream.training()))
    (outputs,) = batch["teacher_outputs"]
    texts = []
    for ids in np.asarray(batch["token_ids"]).tolist():
        ids = [one for one in ids if one][1:-1]
        texts.append(known[tuple(ids)])
    expected = tasks.embed_texts(
        parts.teacher.model, texts, parts.teacher.tokenizer, LENGTH
    )
    np.testing.assert_allclose(
        outputs["sentence_embedding"], expected, atol=1e-5
    )


def test_a_stopped_run_continues_with_the_same_bits(
    settings, finished, tmp_path
):
    distill_in_two_parts(settings, tmp_path / "run", saves=9)
    for arm in ("student", "control"):
        assert same_weights(tmp_path / "run", finished, arm)


def test_texts_of_the_held_out_files_are_left_out(
    settings, files, tmp_path, caplog
):
    held_out = []
    for file, name in zip(files, NAMES, strict=True):
        lines = lines_of(file)
        held_out.append(tmp_path / f"val.{name}")
        held_out[-1].write_text("\n".join([*lines[:2], f"new {name}"]))
    made = dataclasses.replace(
        settings.data, held_out=tuple(map(str, held_out))
    )
    read = models.load_tokenizer(settings.teacher)
    with caplog.at_level(logging.WARNING):
        source, counts = translations.load_translations(
            made, None, read, read, tmp_path
        )
    assert "6 texts are left out because they" in caplog.text
    assert "are also in the held-out files" in caplog.text
    assert counts["dropped"] == 6
    assert len(source.held_out) == 9
    assert len(source.train) == 3 * LINES - 1 - 6


def test_a_language_without_texts_to_measure_on_is_refused(
    settings, files, tmp_path
):
    held_out = [tmp_path / f"val.{name}" for name in NAMES]
    texts = ("a dog\na cat\n", "ein Hund\n\n", "\n\n")
    for file, text in zip(held_out, texts, strict=True):
        file.write_text(text)
    made = dataclasses.replace(
        settings.data, held_out=tuple(map(str, held_out))
    )
    read = models.load_tokenizer(settings.teacher)
    with pytest.raises(UsageError, match="measure on in xx"):
        translations.load_translations(made, None, read, read, tmp_path)
    assert not [*tmp_path.glob("*/index.json")]


def test_the_control_of_random_weights_learns_from_translations(
    settings, tmp_path
):
    sizes = ModelSettings(**{**SIZES, "num_layers": 1})
    random = override(
        dataclasses.replace(settings, student=sizes), ["stages.0.epochs=1"]
    )
    assert random.arms["control"][0].name == "contrastive"
    parts = runner.parts_of_embedder(random, tmp_path)
    parts.build()
    source, _ = translations.load_translations(
        random.data, None, parts.tokenizer, parts.teacher.tokenizer, tmp_path
    )
    pairs = source.labeled_only()
    rows = np.arange(len(pairs.train))
    views = pairs.train.views(rows).reshape(-1, 2)
    np.testing.assert_array_equal(views[:, 0], rows)
    texts = source.train
    np.testing.assert_array_equal(*texts.source_rows[views.T])
    languages = texts.languages[views]
    assert (languages.min(axis=1) == 0).all()
    assert (languages[:, 0] != languages[:, 1]).all()
    partners = languages[languages[:, 0] == 0, 1]
    assert set(partners.tolist()) == {1, 2}
    (stage,) = random.arms["control"]
    x, y = next(iter(pairs.training_stream(stage, 0).training()))
    assert len(x["token_ids"]) == len(y) == 2 * stage.batch_size


@pytest.mark.large
def test_a_given_tokenizer_and_a_checkpoint_with_its_own(
    settings, finished, tmp_path
):
    given = override(
        dataclasses.replace(settings, has_control=False),
        [f"data.tokenizer={finished}", "data.vocabulary_size=null",
         "stages.0.epochs=1"],
    )  # fmt: skip
    distill(given, tmp_path / "given")
    assert not (tmp_path / "given" / "tokenizer").exists()
    own = dataclasses.replace(
        given,
        data=dataclasses.replace(given.data, tokenizer=None),
        student=ModelSettings(checkpoint=str(finished / "student")),
    )
    distill(own, tmp_path / "own")
    for name in ("given", "own"):
        loaded = models.load_embedder(tmp_path / name / "student")
        assert loaded.tokenizer.vocabulary_size() == PIECES
