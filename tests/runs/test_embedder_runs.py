"""The contract of runs that leave a sentence encoder, one for all recipes."""

import json
import shutil

import numpy as np
import pytest
from kit.adapter import command
from kit.embedders import (
    changes,
    columns,
    correlations,
    cosines,
    distill,
    distill_in_two_parts,
    like,
    lines,
    loaded,
    try_to_distill,
    unit,
    vectors,
)
from kit.helpers import divergence, large_except, log_softmax, read_events
from kit.runs import ENCODED, LENGTH, ON_TEXTS, PAIRS

from kdkit import data, models, recipes
from kdkit.config.data import Cache
from kdkit.training.caching import TeacherCaches

SCALE, PAIR_LENGTH, TEMPERATURE = 20.0, 32, 0.05
TEACHER_WIDTH, WIDTH = 32, 16
COMPONENTS, TABLE = "components.npz", "token_vectors.npz"
RANDOM = {
    "num_layers": 1, "hidden_dim": WIDTH, "num_heads": 2,
    "intermediate_dim": 24, "max_sequence_length": 32, "dropout": 0.1,
}  # fmt: skip


class Saved:
    """A run's models and data, and what NumPy computes from them."""

    def __init__(self, workspace, run):
        self.folder, self.run = workspace.path, run
        first, second, scores = columns(self.folder / "pairs.tsv")
        self.pairs = first, second, [*map(float, scores)]
        self.corpus = lines(self.folder / "corpus.txt")

    def vectors(self, arm, texts):
        if arm == "teacher":
            return vectors(self.folder / "encoder", texts, "mean")
        return vectors(self.run / arm, texts)

    def array(self, file, name="components"):
        with np.load(self.run / file) as saved:
            return saved[name]

    def correlations(self, arm):
        *sides, scores = self.pairs
        return correlations(
            cosines(*(self.vectors(arm, side) for side in sides)), scores
        )

    def best(self, arm):
        """The metrics and the logged losses of an arm's best epoch."""
        (end,) = read_events(self.run, "run_finished")
        epochs = [
            one["logs"]
            for one in read_events(self.run, "epoch")
            if one["arm"] == arm
        ]
        chosen = end["best"][arm]
        return {**chosen["metrics"], **epochs[chosen["epoch"] - 1]}


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


def bitext_accuracy(sources, targets):
    """The mean of both directions; equal cosines share a hit."""
    matrix = unit(sources) @ unit(targets).T
    hits = [
        one >= one.max(axis=1, keepdims=True) - 1e-6
        for one in (matrix, matrix.T)
    ]
    return np.mean([np.diag(one) / one.sum(axis=1) for one in hits])


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


def contrastive(first, second):
    """The loss of SimCSE by NumPy."""
    logits = unit(first) @ unit(second).T / TEMPERATURE
    loss = -np.diag(log_softmax(logits)).mean()
    assert loss < 0.9 * np.log(len(logits)), "no text differs from others"
    return loss


def test_a_narrow_student_learns_principal_components(narrow, workspace):
    saved = Saved(workspace, narrow)
    held_out, components = saved.corpus[::5], saved.array(COMPONENTS)
    texts = [text for row, text in enumerate(saved.corpus) if row % 5]
    assert_principal(components, saved.vectors("teacher", texts))
    known = unit(saved.vectors("teacher", held_out) @ components)
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

    distill_in_two_parts(workspace, words, file.parent, SAVES[name], damage)
    names = [COMPONENTS, TABLE]
    names += [f"{arm}/model.weights.h5" for arm in ("student", "control")]
    for one in names:
        if (whole / one).exists():
            found = (file.parent / one).read_bytes()
            assert found == (whole / one).read_bytes()


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
            data__pair_length=PAIR_LENGTH,
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
    "not finite": lambda at, _: from_teacher(
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
    assert answer.status == (1 if named == "not finite" else 2), answer
    assert named in answer.err
    assert not [*tmp_path.glob("run/student")]


def test_the_doctor_writes_nothing(workspace, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    workspace.run("doctor", "sentence_embedding", *ON_TEXTS)
    words = workspace.words(("sentence_embedding", *ON_TEXTS))
    answer = command(["doctor", *words, "--teacher", tmp_path / "nothing"])
    assert (answer.status, "nothing" in answer.err) == (2, True)
    assert not [*tmp_path.iterdir()]


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


@pytest.mark.large
def test_a_table_is_as_wide_as_a_narrow_teacher(workspace, tmp_path):
    static = {"dimensions": 256, "sif": None}
    words = like("static_embedding", student=static, control=True)
    saved = Saved(workspace, distill(workspace, words, tmp_path / "run"))
    start = token_table(saved.run / "control")
    assert start.shape[1] == TEACHER_WIDTH
    assert (start == saved.array(TABLE, "vectors")).all()
