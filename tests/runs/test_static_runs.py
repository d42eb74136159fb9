"""Runs that distil a static sentence encoder, from texts to the student."""

import dataclasses

import numpy as np
import pytest
from kit.comparing import assert_same_numbers
from kit.embedders import distill_in_two_parts, save_teacher
from kit.helpers import read_events

import kdkit
from kdkit import data, models
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES, TokenVectors
from kdkit.runs import smoke
from kdkit.runs.reduced_teacher import read_arrays
from kdkit.runs.static_start import FILE
from kdkit.settings import override
from kdkit.training import ModelSettings, distill

TEXTS, LENGTH, WIDTH, STUDENT_WIDTH = 48, 24, 24, 8
SIZES = {
    "num_layers": 1,
    "hidden_dim": WIDTH,
    "num_heads": 2,
    "intermediate_dim": 32,
    "max_sequence_length": 32,
    "dropout": 0.1,
}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    path = tmp_path_factory.mktemp("teacher") / "teacher"
    return save_teacher(path, SIZES, LENGTH)


@pytest.fixture(scope="module")
def settings(teacher):
    made = smoke.embedder(RECIPES["static_embedding"])
    made = dataclasses.replace(made, teacher=str(teacher), pooling=None)
    return override(
        made,
        [f"data.max_texts={TEXTS}", f"data.sequence_length={LENGTH}",
         "data.num_buckets=2", "stages.0.batch_size=16", "stages.0.epochs=2",
         "stages.0.learning_rate=0.02", "has_control=true",
         f"student.static.dimensions={STUDENT_WIDTH}"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "static"
    distill(settings, path)
    return path


def table(place):
    return models.token_vectors(models.load_embedder(place).model)


def saved_start(run):
    """The components, and the teacher's reduced vectors of the tokens."""
    with np.load(run / FILE) as arrays:
        return arrays["components"], arrays["vectors"]


def teacher_vectors(teacher, texts):
    loaded = models.load_embedder(teacher)
    return kdkit.tasks.embed_texts(
        loaded.model, texts, loaded.tokenizer, LENGTH
    )


def test_the_start_are_the_teachers_principal_components(finished, teacher):
    tokenizer = models.load_tokenizer(teacher)
    size = tokenizer.vocabulary_size()
    ids = np.full((size, 3), tokenizer.end_token_id)
    ids[:, 0], ids[:, 1] = tokenizer.start_token_id, np.arange(size)
    vectors = models.load_embedder(teacher).model.predict(
        {"token_ids": ids, "padding_mask": np.ones_like(ids),
         "segment_ids": np.zeros_like(ids)},
        verbose=0,
    )  # fmt: skip
    _, expected = np.linalg.eigh(
        np.cov(vectors.astype("float64"), rowvar=False)
    )
    expected = expected[:, ::-1][:, :STUDENT_WIDTH]
    components, reduced = saved_start(finished)
    cosines = np.abs((components * expected).sum(axis=0))
    np.testing.assert_allclose(cosines, 1, atol=1e-4)
    np.testing.assert_allclose(reduced, vectors @ components, atol=1e-5)


def test_the_student_gets_nearer_to_the_teachers_components(finished, teacher):
    texts = data.load_sentiment("test").texts[0][:20]
    components, _ = saved_start(finished)
    expected = teacher_vectors(teacher, texts) @ components
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    cosines = {
        arm: (teacher_vectors(finished / arm, texts) * expected).sum(1).mean()
        for arm in ("student", "control")
    }
    assert cosines["student"] > cosines["control"]


def test_tokens_that_are_in_no_text_keep_their_start(finished):
    start, trained = table(finished / "control"), table(finished / "student")
    ids = np.fromfile(finished / "texts" / "train" / "token_ids", "int32")
    seen = np.isin(np.arange(len(start)), ids)
    tokenizer = models.load_tokenizer(finished)
    seen[[tokenizer.start_token_id, tokenizer.end_token_id]] = False
    has_changed = (start != trained).any(axis=1)
    assert not has_changed[~seen].any()
    assert has_changed[seen].all()


def test_teacher_and_start_are_measured(finished):
    found = {
        (one["arm"], one["stage"], one["epoch"]): one["metrics"]["spearman"]
        for one in read_events(finished, "evaluation")
    }
    assert found["student", None, None] == found["control", None, None]
    assert ("teacher", None, None) in found
    assert ("student", "distillation", 2) in found
    model, *_ = read_events(finished, "model")
    assert model["name"] == f"static {STUDENT_WIDTH}"


def test_a_stopped_run_continues_with_the_same_bits(
    settings, finished, tmp_path
):
    path = tmp_path / "run"
    distill_in_two_parts(settings, path, saves=4)
    for arm in ("student", "control"):
        assert (table(path / arm) == table(finished / arm)).all()
    assert_same_numbers(path, finished)


def test_a_damaged_start_is_not_read(finished, tmp_path):
    shapes = {
        name: array.shape
        for name, array in zip(
            ("components", "vectors"), saved_start(finished), strict=True
        )
    }
    assert read_arrays(finished / FILE, shapes).keys() == shapes.keys()
    content = bytearray((finished / FILE).read_bytes())
    content[len(content) // 2] ^= 1
    for part in (content, content[:100], b""):
        (tmp_path / FILE).write_bytes(part)
        assert read_arrays(tmp_path / FILE, shapes) is None
    assert read_arrays(finished / FILE, {"vectors": (1, 2)}) is None
    assert read_arrays(tmp_path / "missing", shapes) is None


def test_without_a_cache_the_numbers_are_the_same(settings, finished, tmp_path):
    distill(dataclasses.replace(settings, cache=None), tmp_path / "run")
    assert not (tmp_path / "run" / "teacher_cache").exists()
    assert_same_numbers(tmp_path / "run", finished)


@pytest.mark.large
def test_a_table_is_as_wide_as_a_narrow_teacher(settings, tmp_path):
    wide = dataclasses.replace(
        settings, student=ModelSettings(static=TokenVectors(256))
    )
    wide = override(
        wide, ["stages.0.epochs=1", "student.static.sif=null",
               "has_control=true"],
    )  # fmt: skip
    distill(wide, tmp_path / "run")
    start = table(tmp_path / "run" / "control")
    assert start.shape[1] == WIDTH
    _, vectors = saved_start(tmp_path / "run")
    assert (start == vectors).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["student.static.dimensions=1"], "dimensions must be at least 2"),
        (["student.static.sif=0"], "sif must be above 0"),
        (["student.num_layers=2"], "Expected one source"),
    ],
)
def test_wrong_settings_are_refused(changes, message, settings):
    with pytest.raises(UsageError, match=message):
        override(settings, changes)
