"""Runs that distil a sentence encoder, from texts to the saved student."""

import dataclasses
import json
import logging

import numpy as np
import pytest
from kit.comparing import assert_same_numbers
from kit.embedders import same_weights, save_teacher
from kit.helpers import read_events, stopped_after_save

import kdkit
from kdkit import data, models
from kdkit.data.stored_texts import read_hashes, text_hash
from kdkit.errors import RunError, UsageError
from kdkit.losses import SimilarityKLDivergence
from kdkit.models import Pooling
from kdkit.recipes import RECIPES
from kdkit.recipes.sentence_embedding import TAP, with_prefixes
from kdkit.runs import embedder_parts, runner, smoke
from kdkit.runs.reduced_teacher import FILE, ReducedTeacher
from kdkit.settings import override
from kdkit.training import ModelSettings, distill, embedding_data

TEXTS, LENGTH = 48, 24
SIZES = {
    "num_layers": 3,
    "hidden_dim": 24,
    "num_heads": 2,
    "intermediate_dim": 32,
    "max_sequence_length": 32,
    "dropout": 0.1,
}
RANDOM = {**SIZES, "num_layers": 1, "hidden_dim": 16}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    path = tmp_path_factory.mktemp("teacher") / "teacher"
    return save_teacher(path, SIZES, LENGTH)


@pytest.fixture(scope="module")
def settings(teacher):
    made = smoke.embedder(RECIPES["sentence_embedding"])
    made = dataclasses.replace(made, teacher=str(teacher), pooling=None)
    return override(
        made,
        [f"data.max_texts={TEXTS}", f"data.sequence_length={LENGTH}",
         "data.num_buckets=2", "stages.0.batch_size=16", "stages.0.epochs=2",
         "has_control=true"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "encoder"
    distill(settings, path)
    return path


def vectors(place, texts):
    loaded = models.load_embedder(place)
    rows = data.encode(data.Examples((texts,)), loaded.tokenizer, LENGTH)
    inputs = rows.inputs(np.arange(len(texts)), LENGTH)
    return np.asarray(loaded.model(inputs, training=False))


def test_the_student_gets_nearer_to_the_teachers_vectors(finished, teacher):
    texts = data.load_sentiment("test").texts[0][:20]
    expected = vectors(teacher, texts)
    cosines = {
        arm: (vectors(finished / arm, texts) * expected).sum(axis=1).mean()
        for arm in ("student", "control")
    }
    assert cosines["student"] > cosines["control"]


def test_a_dot_teachers_prompts_and_lengths_are_learned(
    settings, teacher, tmp_path, caplog
):
    loaded = models.load_embedder(teacher)
    model = models.make_embedder(
        models.backbone_of(loaded.model), Pooling(normalize=False)
    )
    own = models.Conventions(
        {"query": "the ", "corpus": "a "}, similarity="dot"
    )
    models.save_embedder(model, loaded.tokenizer, tmp_path / "dot", 32, own)
    made = dataclasses.replace(
        settings, teacher=str(tmp_path / "dot"), has_control=False
    )
    with pytest.raises(UsageError, match=r"compared by dot.*cosine"):
        distill(made, tmp_path / "cosine")
    stages = RECIPES["sentence_embedding"].variant("mse").stages
    made = dataclasses.replace(made, stages=stages)
    with caplog.at_level(logging.INFO):
        distill(override(made, ["stages.0.batch_size=16"]), tmp_path / "run")
    assert f"up to {LENGTH} tokens, the teacher was made for 32" in caplog.text
    assert models.load_embedder(tmp_path / "run").conventions == own
    lengths = np.fromfile(tmp_path / "run/texts/train/lengths", "int32")
    ids = np.fromfile(tmp_path / "run/texts/train/token_ids", "int32")
    firsts = ids[np.cumsum(lengths) - lengths + 1][:4].tolist()
    words = [loaded.tokenizer.token_to_id(one) for one in ("the", "a")]
    assert firsts == 2 * words
    task = kdkit.tasks.get_task(made.data.task)
    pairs = task.load(made.data.dev_split)
    sides = [vectors(tmp_path / "dot", list(side)) for side in pairs.texts]
    expected = kdkit.tasks.pair_metrics(*sides, pairs.labels, "dot")
    first = read_events(tmp_path / "run", "evaluation")[0]
    assert first["arm"] == "teacher"
    assert first["metrics"] == pytest.approx(expected, abs=1e-5)


def test_prompts_are_refused_where_texts_have_no_roles():
    with pytest.raises(UsageError, match="trains without.*'query: '"):
        embedder_parts.require_no_prompts(
            models.Conventions({"query": "query: ", "document": ""})
        )


def test_the_cache_has_the_vectors_of_all_texts_once(finished):
    index = json.loads((finished / "teacher_cache" / "index.json").read_text())
    assert list(index["entries"]) == [TAP]
    assert index["entries"][TAP]["shape"] == [SIZES["hidden_dim"]]
    assert len(read_hashes(finished / "texts" / "train")) <= TEXTS


def test_without_a_cache_the_numbers_are_the_same(settings, finished, tmp_path):
    distill(dataclasses.replace(settings, cache=None), tmp_path / "run")
    assert not (tmp_path / "run" / "teacher_cache").exists()
    assert_same_numbers(tmp_path / "run", finished)


def test_without_pairs_the_loss_on_held_out_texts_chooses(settings, tmp_path):
    alone = dataclasses.replace(settings, has_control=False)
    alone = override(
        alone,
        ["data.task=null", "data.held_out_every=5", "stages.0.epochs=1"],
    )
    distill(alone, tmp_path / "run")
    (found,) = read_events(tmp_path / "run", "evaluation")
    assert found["split"] == "held_out"
    assert list(found["metrics"])[0] == "loss"
    train, held_out = (
        set(read_hashes(tmp_path / "run" / "texts" / name).tolist())
        for name in ("train", "held_out")
    )
    assert len(held_out) == -(-(len(train) + len(held_out)) // 5)
    assert not train & held_out
    (counts,) = read_events(tmp_path / "run", "unlabeled")
    assert counts["compared_with"] == []


def test_texts_of_dev_are_left_out_with_a_warning(settings, tmp_path, caplog):
    pairs = data.synthetic.load_similarity("dev").texts
    known = [pairs[0][0].upper(), pairs[1][3]]
    file = tmp_path / "a.txt"
    file.write_text("\n".join([*known, "", "the plot is thin", "the hero"]))
    on_file = override(
        dataclasses.replace(settings, has_control=False),
        [f'data.files=["{file}"]', "stages.0.epochs=1"],
    )
    with caplog.at_level(logging.WARNING):
        distill(on_file, tmp_path / "run")
    assert "2 texts are left out because similarity dev contains" in caplog.text
    (counts,) = read_events(tmp_path / "run", "unlabeled")
    assert (counts["rows"], counts["dropped"], counts["empty"]) == (4, 2, 1)
    hashes = read_hashes(tmp_path / "run" / "texts" / "train")
    assert text_hash(known[0]) not in set(hashes.tolist())
    assert len(hashes) == 2
    file.write_text("the music is dull\n")
    with pytest.raises(UsageError, match="content of the texts has changed"):
        distill(on_file, tmp_path / "run")


@pytest.fixture(scope="module")
def narrow(settings, tmp_path_factory):
    """A finished run whose student has fewer dimensions than its teacher."""
    path = tmp_path_factory.mktemp("runs") / "narrow"
    student = ModelSettings(**RANDOM)
    distill(dataclasses.replace(settings, student=student), path)
    return path


def saved_components(run):
    with np.load(run / FILE) as saved:
        return saved["components"]


def test_vectors_that_are_not_finite_end_a_run(teacher):
    reduced = ReducedTeacher(models.load_embedder(teacher).model, 4)
    vectors = np.ones((20, reduced.shape[0]))
    vectors[3] = np.nan
    with pytest.raises(RunError, match="1 of 20 vectors that are not finite"):
        reduced.first_components(vectors)


def test_a_narrow_student_learns_principal_components(narrow, teacher):
    texts = data.load_sentiment("test").texts[0]
    tokenizer = models.load_tokenizer(teacher)
    ids = np.fromfile(narrow / "texts" / "train" / "token_ids", "int32")
    ends = np.flatnonzero(ids == tokenizer.end_token_id) + 1
    rows = np.split(ids, ends)[:-1]
    padded = np.full((len(rows), LENGTH), tokenizer.pad_token_id)
    for row, one in zip(padded, rows, strict=True):
        row[: len(one)] = one
    trained = models.load_embedder(teacher).model.predict(
        {"token_ids": padded, "segment_ids": np.zeros_like(padded),
         "padding_mask": (padded != tokenizer.pad_token_id).astype("int32")},
        verbose=0,
    )  # fmt: skip
    _, expected = np.linalg.eigh(
        np.cov(trained.astype("float64"), rowvar=False)
    )
    expected = expected[:, ::-1][:, : RANDOM["hidden_dim"]]
    components = saved_components(narrow)
    cosines = np.abs((components * expected).sum(axis=0))
    np.testing.assert_allclose(cosines, 1, atol=1e-4)
    known = vectors(teacher, texts[:20]) @ components
    known /= np.linalg.norm(known, axis=1, keepdims=True)
    cosines = {
        arm: (vectors(narrow / arm, texts[:20]) * known).sum(axis=1).mean()
        for arm in ("student", "control")
    }
    assert cosines["student"] > cosines["control"]
    (end,) = read_events(narrow, "run_finished")
    assert end["best"]["control"]["stage"] == "contrastive"


def test_a_stopped_run_keeps_its_components(settings, narrow, tmp_path):
    path = tmp_path / "run"
    steps = dataclasses.replace(settings, student=ModelSettings(**RANDOM))
    steps = override(steps, ["checkpoint_minutes=0"])
    with stopped_after_save(4):
        distill(steps, path)
    known = (path / FILE).read_bytes()
    distill(steps, path)
    assert (path / FILE).read_bytes() == known
    assert same_weights(path, narrow, "student")


@pytest.mark.large
@pytest.mark.parametrize("projected", [True, False])
def test_a_student_of_another_width_with_its_control(
    projected, settings, tmp_path
):
    sizes = ModelSettings(**RANDOM)
    changes = ["stages.0.epochs=1", "stages.0.objectives.0.projection=shared"]
    stages = settings.stages
    if not projected:
        objective = dataclasses.replace(
            stages[0].objectives[0], loss=SimilarityKLDivergence(), name=None
        )
        stages = (dataclasses.replace(stages[0], objectives=(objective,)),)
    random = override(
        dataclasses.replace(settings, student=sizes, stages=stages),
        changes[: 1 + projected],
    )
    distill(random, tmp_path / "run")
    texts = data.load_sentiment("test").texts[0][:4]
    found = vectors(tmp_path / "run" / "student", texts)
    assert found.shape == (4, RANDOM["hidden_dim"])
    (end,) = read_events(tmp_path / "run", "run_finished")
    assert end["best"]["control"]["stage"] == "contrastive"
    start, *_, control = read_events(tmp_path / "run", "evaluation")
    assert control["arm"] == "control"
    assert not (tmp_path / "run" / FILE).exists()


def test_a_wider_student_needs_another_loss(settings, tmp_path):
    wider = ModelSettings(**RANDOM | {"hidden_dim": 32})
    with pytest.raises(UsageError, match="projection"):
        distill(dataclasses.replace(settings, student=wider), tmp_path / "run")


def test_layers_of_another_encoder_are_not_taken_for_the_teachers(
    settings, teacher
):
    student = ModelSettings(copy_from="another", copy_layers=(1,))
    other = dataclasses.replace(settings, student=student)
    with pytest.raises(UsageError, match="Received: 'another'"):
        embedder_parts.make_student(other, models.load_embedder(teacher))


def test_contrastive_loss_is_that_of_two_views():
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(6, 4)).astype("float32")
    found = embedding_data.ContrastiveLoss(temperature=0.1)(
        np.zeros(6), vectors
    )
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    logits = unit[0::2] @ unit[1::2].T / 0.1
    expected = np.log(np.exp(logits).sum(axis=1)) - np.diag(logits)
    assert float(found) == pytest.approx(expected.mean(), rel=1e-5)


def test_the_doctor_checks_a_run_without_writing(settings, tmp_path):
    parts = runner.parts_of_embedder(settings, tmp_path / "run")
    findings = embedder_parts.diagnose_embedder(parts)
    assert not findings.ruinous
    assert {one.check for one in findings} >= {"models", "unknown words"}
    assert not (tmp_path / "run").exists()
    wrong = dataclasses.replace(settings, teacher=str(tmp_path / "nothing"))
    parts = runner.parts_of_embedder(wrong, tmp_path / "run")
    with pytest.raises(UsageError, match="nothing"):
        embedder_parts.diagnose_embedder(parts)


@pytest.mark.large
@pytest.mark.parametrize(
    "parity", sorted(RECIPES["sentence_embedding"].parities)
)
def test_variants_of_the_recipe_train(parity, settings, tmp_path):
    stages = RECIPES["sentence_embedding"].variant(parity).stages
    stages = with_prefixes(stages, (12, 6))
    variant = dataclasses.replace(
        settings, stages=stages, parity=parity, has_control=False
    )
    distill(variant, tmp_path / "run")
    (epoch,) = read_events(tmp_path / "run", "epoch")
    names = {one.name for one in stages[0].objectives}
    assert names <= set(epoch["logs"])
