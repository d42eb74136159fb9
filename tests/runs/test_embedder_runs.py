"""The contract of runs that leave a sentence encoder, one for all recipes."""

import contextlib

import numpy as np
import pytest
from kit.embedders import (
    RANDOM,
    WIDTH,
    Saved,
    bitext_accuracy,
    changes,
    columns,
    contrastive,
    cosines,
    distill,
    distill_in_two_parts,
    like,
    lines,
    loaded,
    vectors,
)
from kit.helpers import (
    as_users,
    divergence,
    large_except,
    log_softmax,
    read_events,
    units,
)
from kit.runs import ENCODED, LENGTH, ON_TEXTS, RUNS

from kdkit import data, models, recipes
from kdkit.config.data import Cache
from kdkit.training.caching import TeacherCaches

SCALE, PAIR_LENGTH = 20.0, 32
TEACHER_WIDTH = 32
COMPONENTS, TABLE = "components.npz", "token_vectors.npz"


def on_texts(saved):
    """Of the teacher's vectors, reduced if the student's are narrower."""
    texts = [*dict.fromkeys(saved.pairs[0] + saved.pairs[1])]
    known = saved.vectors("teacher", texts)
    if (saved.run / TABLE).exists():
        known = known @ saved.array(TABLE)
    loss = np.mean(1 - cosines(known, saved.vectors("student", texts)))
    return {
        "teacher": saved.correlations("teacher"),
        "student": {"val_loss": loss, **saved.correlations("student")},
    }


def on_translations(saved):
    """Each text's vector moves towards the teacher's of its source."""
    sides = [lines(saved.folder / f"lines.{n}")[::8] for n in ("en", "xx")]
    expected = {}
    for arm in ("teacher", "student"):
        found = [saved.vectors(arm, side) for side in sides]
        accuracy = bitext_accuracy(*found)
        names = ("bitext_accuracy", "bitext_accuracy_xx")
        expected[arm] = dict.fromkeys(names, accuracy)
    known = saved.vectors("teacher", sides[0])
    losses = [1 - cosines(known, one) for one in found]
    expected["student"]["val_loss"] = np.mean(losses)
    return expected


def candidate_scores(saved, arm):
    sides = columns(saved.folder / "candidates.tsv")
    queries, *documents = (side[::4] for side in sides)
    documents = [one for row in zip(*documents, strict=True) for one in row]
    if arm != "teacher":
        found = saved.vectors(arm, documents).reshape(len(queries), 2, -1)
        queries = saved.vectors(arm, queries)
        return SCALE * np.einsum("qd,qcd->qc", queries, found)
    teacher = models.load_classifier(saved.folder / "teacher", 2)
    examples = data.Examples(([*np.repeat(queries, 2)], documents))
    encoded = data.encode(examples, teacher.tokenizer, PAIR_LENGTH)
    batch = encoded.inputs(np.arange(len(documents)), PAIR_LENGTH)
    logits = np.asarray(teacher.model(batch))
    return (logits[:, 1] - logits[:, 0]).reshape(len(queries), 2)


def on_candidates(saved):
    """A cross-encoder's margins and distribution; a control on labels."""
    expected, every = {}, {}
    for arm in ("teacher", "student", "control"):
        every[arm] = candidate_scores(saved, arm)
        rank = 1 + (every[arm][:, 1] > every[arm][:, 0])
        expected[arm] = {
            "mrr@10": np.mean(1 / rank),
            "accuracy": np.mean(rank == 1),
        }
    theirs, ours, control = every.values()
    margins = np.diff(theirs) - np.diff(ours)
    expected["student"] |= {
        "val_margin_mse": np.mean(margins**2),
        "val_logit_kl_divergence": divergence(theirs, ours).mean(),
    }
    expected["control"]["val_loss"] = -log_softmax(control)[:, 0].mean()
    return expected


# What NumPy computes; the width and the number of the teacher's outputs.
KINDS = {
    "sentence_embedding": (on_texts, TEACHER_WIDTH, 144),
    "static_embedding": (on_texts, WIDTH, 144),
    "multilingual": (on_translations, TEACHER_WIDTH, 120),  # of one language
    "reranker_to_embedder": (on_candidates, 2, 80),
}


@pytest.mark.parametrize("name", KINDS)
def test_numbers_are_those_of_the_saved_models(name, workspace):
    saved = Saved(workspace, workspace.make(name))
    expected, width, rows = KINDS[name]
    teacher, start, *_ = read_events(saved.run, "evaluation")
    assert (teacher["arm"], start["arm"]) == ("teacher", "student")
    assert teacher["stage"] is start["stage"] is None
    for arm, numbers in expected(saved).items():
        found = teacher["metrics"] if arm == "teacher" else saved.best(arm)
        found = {name: found[name] for name in numbers}
        assert found == pytest.approx(numbers, rel=1e-3, abs=1e-5), arm
    first, last = (one["logs"] for one in read_events(saved.run, "epoch")[:2])
    assert last["loss"] < first["loss"]
    files = saved.run.glob("teacher_cache/**/*.npy")
    assert sum(np.load(file).size - 4 for file in files) == width * rows


def test_heads_of_one_encoder_share_a_cache(workspace, tmp_path):
    place = workspace.path / "encoder"  # has no pooling and dense layers
    mean, first = (models.load_embedder(place, one) for one in ("mean", "cls"))
    dense = models.Pooling(dense=(models.DenseSettings(4, use_bias=False),))
    encoder = models.backbone_of(mean.model)
    narrow = [models.make_embedder(encoder, dense) for _ in range(2)]
    rows = data.Examples((lines(workspace.path / "corpus.txt")[:9],))
    rows, every = data.encode(rows, mean.tokenizer, LENGTH), np.arange(9)
    stage = recipes.RECIPES["sentence_embedding"].stages[0]
    cache = Cache(directory=str(tmp_path))
    for model in (mean.model, first.model, *narrow):
        caches = TeacherCaches(cache, [model], [place])
        read = caches.features(stage, model)(rows)
        ((found,),) = read(every, LENGTH).values()
        right = np.array(model(rows.inputs(every, LENGTH)))
        np.testing.assert_allclose(*found.values(), right, atol=1e-5)


NARROW = (
    *("sentence_embedding", *ENCODED, "--texts", "@corpus.txt", "--control"),
    *("--parity", "mse", "--learning-rate", "2e-2"),
    *changes(student=RANDOM, data__held_out_every=5, data__num_buckets=None),
)


@pytest.fixture(scope="module")
def narrow(workspace, tmp_path_factory):
    """A run without pairs, to a student with fewer dimensions."""
    path = tmp_path_factory.mktemp("runs") / "narrow"
    return distill(workspace, NARROW, path)


def assert_principal(found, rows):
    """Up to their signs."""
    _, expected = np.linalg.eigh(np.cov(rows.astype("float64"), rowvar=False))
    signs = np.abs(np.sum(found * expected[:, ::-1][:, :WIDTH], axis=0))
    np.testing.assert_allclose(signs, 1, atol=1e-4)


def test_a_narrow_student_learns_principal_components(narrow, workspace):
    saved = Saved(workspace, narrow)
    held_out, components = saved.corpus[::5], saved.array(COMPONENTS)
    texts = [text for row, text in enumerate(saved.corpus) if row % 5]
    assert_principal(components, saved.vectors("teacher", texts))
    known = units(saved.vectors("teacher", held_out) @ components)
    arms = ("student", "control")
    found = {arm: vectors(narrow / arm, held_out) for arm in arms}
    mse = {arm: np.mean((known - found[arm]) ** 2) for arm in found}
    assert mse["student"] < mse["control"]
    losses = [mse["student"], contrastive(*2 * [found["control"]])]
    for arm, loss in zip(found, losses, strict=True):
        best = saved.best(arm)
        assert best["val_loss"] == pytest.approx(loss, rel=1e-3)
    (counts,) = read_events(narrow, "unlabeled")
    assert (counts["rows"], counts["compared_with"]) == (120, [])
    *_, last = read_events(narrow, "evaluation")
    assert (last["split"], last["examples"]) == ("held_out", 24)


def uncached(workspace, name, folder):
    words = like(name, cache=None, control=True)
    run = distill(workspace, words, folder / "run")
    assert not (run / "teacher_cache").exists()
    expected, found = (
        [
            one.get("logs", {}) | one.get("metrics", {})
            for one in read_events(run)
            if one["event"] in ("epoch", "evaluation")
            and one["arm"] != "control"
        ]
        for run in (workspace.make(name), run)
    )
    for one, two in zip(found, expected, strict=True):
        assert one == pytest.approx(two, rel=1e-4, abs=1e-5)
    return run


def test_without_a_cache_the_numbers_are_the_same(workspace, tmp_path):
    uncached(workspace, "sentence_embedding", tmp_path)


def token_table(place):
    return models.token_vectors(loaded(place).model)


def test_a_table_starts_from_the_tokens_components(workspace, tmp_path):
    """Also without a cache."""
    saved = Saved(workspace, uncached(workspace, "static_embedding", tmp_path))
    teacher = loaded(workspace.path / "encoder", "mean")
    read, size = teacher.tokenizer, teacher.tokenizer.vocabulary_size()
    ids = np.full((size, 3), read.end_token_id, "int32")
    ids[:, 0], ids[:, 1] = read.start_token_id, np.arange(size)
    batch = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    batch["segment_ids"] = np.zeros_like(ids)
    known, components = np.asarray(teacher.model(batch)), saved.array(TABLE)
    assert_principal(components, known)
    np.testing.assert_allclose(
        saved.array(TABLE, "vectors"), known @ components, atol=1e-4
    )
    start = token_table(saved.run / "control")
    trained = token_table(saved.run / "student")
    texts = np.fromfile(saved.run / "texts/train/token_ids", "int32")
    is_seen = np.isin(np.arange(size), texts)
    is_seen[[read.start_token_id, read.end_token_id]] = False
    np.testing.assert_array_equal((start != trained).any(axis=1), is_seen)
    _, start, *_, control = read_events(saved.run, "evaluation")
    assert control["arm"] == "control"
    assert control["metrics"] == start["metrics"]


SAVES = {"narrow": 9, "static_embedding": 4, "multilingual": 9,
         "reranker_to_embedder": 3}  # fmt: skip


@pytest.mark.parametrize(
    "name", large_except([*SAVES], "static_embedding", "narrow")
)
def test_a_stopped_run_ends_with_the_same_bits(
    name, workspace, narrow, tmp_path
):
    """Also if what a run computed before training was damaged since."""
    whole = narrow if name == "narrow" else workspace.make(name)
    words = NARROW if name == "narrow" else like(name)
    file = tmp_path / "run" / TABLE

    def damage():
        if file.exists():
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)

    is_traced = name in RUNS and RUNS[name].traced
    with as_users() if is_traced else contextlib.nullcontext():
        distill_in_two_parts(workspace, words, file.parent, SAVES[name], damage)
    names = [COMPONENTS, TABLE]
    names += [f"{arm}/model.weights.h5" for arm in ("student", "control")]
    for one in names:
        if (whole / one).exists():
            found = (file.parent / one).read_bytes()
            assert found == (whole / one).read_bytes()


LOSS = "stages__distillation__objectives__{}__loss__{}"
PREFIXES = {LOSS.format("matryoshka", "dimensions"): [16, 8]}
HEADS = {LOSS.format("value_relations", "num_relation_heads"): 4}


@pytest.mark.large
@pytest.mark.parametrize(
    ("parity", "more", "losses"),
    [
        ("layers", HEADS, {"hidden_state_mse", "value_relations"}),
        ("matryoshka", PREFIXES, {"hidden_state_cosine", "matryoshka"}),
    ],
)
def test_variants_of_the_recipe_train(
    parity, more, losses, workspace, tmp_path
):
    words = ("sentence_embedding", *ON_TEXTS, "--parity", parity)
    run = distill(workspace, (*words, *changes(**more)), tmp_path / "run")
    assert losses <= Saved(workspace, run).best("student").keys()


@pytest.mark.large
def test_a_table_is_as_wide_as_a_narrow_teacher(workspace, tmp_path):
    static = {"dimensions": 256, "sif": None}
    words = like("static_embedding", student=static, control=True)
    saved = Saved(workspace, distill(workspace, words, tmp_path / "run"))
    start = token_table(saved.run / "control")
    assert start.shape[1] == TEACHER_WIDTH
    assert (start == saved.array(TABLE, "vectors")).all()
