"""Recipes on other models, precisions and data than those of the goldens."""

import json
import shutil
import warnings

import keras_hub
import numpy as np
import pytest
import safetensors.numpy
from kit.adapter import command
from kit.foreign import foreign_model
from kit.helpers import as_users, read_events, to_numpy
from kit.hugging_face import write_tokenizer
from kit.runs import (
    ON_TASK,
    PLAIN,
    ROWS,
    TAUGHT,
    TINYBERT,
    settings,
    sizes,
    stage,
)

from kdkit import data, models, taps
from kdkit.config.data import Sentences
from kdkit.tasks import get_task

TRAIN_ROWS = 48
ONE = settings(epochs=1, batch_size=16)
MSE = "stages__intermediate_layer__objectives__hidden_state_mse"
GENERAL = "steps__general__stages__general_distillation"
MIXED = ("--set", "training.dtype_policy=mixed_bfloat16")


@pytest.fixture(scope="module", autouse=True)
def _eager(eager):
    """Steps are untraced, except in mixed precision."""


@pytest.mark.large
@pytest.mark.parametrize(
    ("name", "family"),
    [("distil_bert", "DistilBert"), ("roberta", "Roberta")],
)
def test_a_student_may_be_of_another_family(name, family, workspace, tmp_path):
    words = [*TINYBERT, "--control", "--set", f"student.family={name}"]
    answer = command(workspace.words([*words, "--run-dir", tmp_path]))
    assert answer.status == 0, answer.err
    classifier = getattr(keras_hub.models, f"{family}TextClassifier")
    for role in ("student", "control"):
        loaded = models.load_classifier(tmp_path / role, 2)
        assert type(loaded.model) is classifier
        plain = classifier.from_preset(str(tmp_path / role)).preprocessor
        rows = data.Examples((["a good film"],))
        rows = data.encode(rows, loaded.tokenizer, 16)
        ids = plain(["a good film"])["token_ids"]
        assert ids[0, : len(rows.token_ids)].numpy().tolist() == [
            *rows.token_ids
        ]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """transformers' BERT for masked tokens, with exact GELU, no pooler."""
    path = tmp_path_factory.mktemp("checkpoint")
    tokenizer = models.word_piece_tokenizer(data.sentiment_vocabulary(), True)
    foreign_model(
        "bert",
        "ForMaskedLM",
        vocab_size=tokenizer.vocabulary_size(),
        max_position_embeddings=64,
        num_hidden_layers=4,
        initializer_range=0.1,
    ).save_pretrained(path)
    write_tokenizer(path, "bert", tokenizer)
    return path


def run(words, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        answer = command([*words, *PLAIN, "--run-dir", path])
    assert answer.status == 0, answer.err
    return path


@pytest.mark.large
def test_a_foreign_checkpoint_is_taught_and_copied_as_it_is(
    checkpoint, tmp_path
):
    rows = ("--task", "sentiment", "--set", "data.max_train_rows=32", *ONE)
    teacher = run(
        ["train-teacher", "--model", checkpoint, *rows], tmp_path / "teacher"
    )
    saved = json.loads((teacher / "teacher" / "kdkit.json").read_text())
    assert saved["activation"] == "gelu"
    words = ["distill", "pkd", "--teacher", teacher, "--num-layers", "2"]
    student = run(
        [*words, "--pretrained", checkpoint, *rows], tmp_path / "student"
    )
    ours = models.load_classifier(student, 2).model
    assert type(ours.backbone) is keras_hub.models.BertBackbone
    # The same without kdkit.
    place = str(student / "student")
    theirs = keras_hub.models.TextClassifier.from_preset(place)
    theirs.preprocessor = None
    ids = np.random.default_rng(0).integers(5, 40, (4, 16)).astype("int32")
    x = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    x["segment_ids"] = np.zeros_like(ids)
    np.testing.assert_array_equal(ours(x), theirs(x))


@pytest.fixture
def traced():
    """Dtypes are promoted otherwise than eagerly."""
    with as_users():
        yield


@pytest.mark.large
@pytest.mark.usefixtures("traced")
def test_a_run_in_mixed_precision_saves_float32(workspace, tmp_path):
    losses = []
    for policy in ((), MIXED):
        path = tmp_path / f"run_{len(losses)}"
        words = ["distill", "pkd", *TAUGHT, "--num-layers", "2", *policy]
        words += stage("fine_tuning")
        answer = command(workspace.words([*words, "--run-dir", path]))
        assert answer.status == 0, answer.err
        losses.append([event["logs"] for event in read_events(path, "epoch")])
    for one, mixed in zip(*losses, strict=True):
        assert mixed["loss"] == pytest.approx(one["loss"], rel=0.3)
    student = keras_hub.models.TextClassifier.from_preset(str(path / "student"))
    assert student.dtype_policy.name == "float32"
    assert student.backbone.dtype_policy.name == "float32"


@pytest.mark.large
@pytest.mark.usefixtures("traced")
def test_text_in_mixed_precision_leaves_what_it_trained(workspace, tmp_path):
    words = ["pretrain", "--recipe", "tinybert", "--teacher", "@pretrained"]
    words += ["--corpus", "@corpus.txt", *MIXED, *PLAIN]
    words += sizes("student", 1, 32, 0.0)
    words += settings(corpus__sequence_length=16, epochs=1)
    workspace.make("pretrained")
    answer = command(workspace.words([*words, "--run-dir", tmp_path]))
    assert answer.status == 0, answer.err
    encoder, _ = models.load_encoder(tmp_path)
    assert encoder.dtype_policy.name == "float32"
    kept = encoder.get_weights()
    (final,) = tmp_path.glob("checkpoints/student/*/final*")
    found = safetensors.numpy.load_file(final)
    assert len(found) == len(kept)
    for key, weight in enumerate(kept):
        np.testing.assert_array_equal(found[str(key)][0], weight)


WIDTH = 32  # of rows that are padded to one length


def authors_losses(teacher, student, encoded, rows, length):
    """Both losses of rows that are padded to a length, as their code has them.

    The means of MSELoss over everything: scores with the mask added, of which
    those up to -100 are 0, and all hidden states.
    """
    token_ids = np.zeros((len(rows), length), "int32")
    for place, number in enumerate(rows):
        row = encoded.row(number)
        token_ids[place, : len(row)] = row
    x = {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": (token_ids != 0).astype("int32"),
    }
    wanted = ["attention_logits", "hidden_states"]
    theirs, ours = (
        to_numpy(taps.tapped(model, wanted)(x)) for model in (teacher, student)
    )
    mask = -10000.0 * (1 - x["padding_mask"][:, None, None, :])

    def scores(attention):
        return np.where(attention + mask <= -1e2, 0.0, attention + mask)

    def mse(one, other):
        return np.mean((one - other) ** 2)

    return {
        "attention_mse": mse(
            scores(theirs["attention_logits"][-1]),
            scores(ours["attention_logits"][-1]),
        ),
        "hidden_state_mse": sum(
            mse(theirs["hidden_states"][block], ours["hidden_states"][block])
            for block in (0, -1)
        ),
    }


@pytest.mark.large
def test_losses_of_a_run_are_those_of_the_authors_code(workspace, tmp_path):
    """With --parity tinybert: of rows of one length, padding included."""
    answer = command(
        workspace.words(
            [
                *("distill", "tinybert", *ON_TASK, "--teacher", "@teacher"),
                *("--parity", "tinybert", "--run-dir", tmp_path, *PLAIN),
                *sizes("student", 1, 32, 0.0),
                # One update so small that the student stays as it was.
                *stage("intermediate_layer", 1, 1e-12, TRAIN_ROWS),
                *stage("prediction_layer", 1, 1e-12, TRAIN_ROWS),
                *settings(
                    **{f"{MSE}__projection": "null"},
                    data__sequence_length=WIDTH,
                ),
            ]
        )
    )
    assert answer.status == 0, answer.err
    teacher = models.load_classifier(workspace.path / "teacher", 2)
    student = models.load_classifier(tmp_path / "student", 2).model
    task = get_task("sst2")
    logs, *_ = (event["logs"] for event in read_events(tmp_path, "epoch"))
    for split, prefix in (("train", ""), ("dev", "val_")):
        examples = task.load(split, workspace.path / "data")
        encoded = task.encode(examples, teacher.tokenizer, WIDTH)
        longest = int(encoded.lengths.max())
        assert longest < WIDTH
        expected, bucketed = (
            authors_losses(
                teacher.model, student, encoded, range(len(encoded)), length
            )
            for length in (WIDTH, longest)
        )
        for name, value in expected.items():
            assert logs[prefix + name] == pytest.approx(value, rel=1e-4)
            assert bucketed[name] != pytest.approx(value, rel=1e-3)
        # Padded keys add nothing and are counted.
        shorter = bucketed["attention_mse"] / expected["attention_mse"]
        assert shorter > 1.3


@pytest.fixture(scope="module")
def whole(workspace, tmp_path_factory):
    """TinyBERT whole: a function that makes a run, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    workspace.make("pretrained")
    shutil.copytree(workspace.path / "data", folder / "data")
    shutil.copy(workspace.path / "corpus.txt", folder)

    def make(name, *more, verb="distill", made=folder):
        place = ("--run-dir", folder / name) if verb == "distill" else ()
        words = [
            *(verb, "tinybert", "--task", "sst2", *place),
            *("--data-dir", folder / "data", "--teacher", "@teacher"),
            *("--pretrained", "@pretrained", "--general", made / "general"),
            *("--corpus", folder / "corpus.txt", *ROWS, *PLAIN),
            *("--augment", made / "copies.tsv"),
            *("--augment-model", "@pretrained"),
            *sizes("steps.general.student", 2, 16, 0.0),
            *settings(
                steps__general__corpus__sequence_length=16,
                steps__general__corpus__held_out_every=20,
                steps__general__training__jit_compile="false",
                **{f"{GENERAL}__epochs": 2, f"{GENERAL}__learning_rate": 1e-3},
                stages__intermediate_layer__epochs=1,
                stages__prediction_layer__epochs=1,
                steps__augmented__num_copies=2,
                steps__augmented__num_candidates=3,
            ),
            *more,
        ]
        return command(workspace.words(words))

    assert make("run").status == 0
    return make, folder


@pytest.mark.large
def test_tinybert_distils_in_general_then_on_rows_and_copies(whole):
    _, folder = whole
    run, general = folder / "run", folder / "general"
    first, last = (
        event["metrics"] for event in read_events(general, "evaluation")
    )
    assert set(first) == {"loss", "attention_mse", "hidden_state_mse"}
    assert last["loss"] < first["loss"]
    config = json.loads((run / "config.json").read_text())
    assert config["student"]["checkpoint"] == str(general)
    before = keras_hub.models.Backbone.from_preset(str(general / "student"))
    after = models.load_classifier(run, 2).model.backbone
    moved = [
        np.abs(one - two).max()
        for one, two in zip(
            before.get_weights(), after.get_weights(), strict=True
        )
    ]
    # Close, after a few steps; newly initialised weights would be far away.
    assert 0 < max(moved) < 0.05
    (counts,) = read_events(run, "augmented")
    lines = (folder / "copies.tsv").read_text().splitlines()[2:]
    assert counts["rows"] == TRAIN_ROWS
    assert counts["copies"] + counts["left_out"] == len(lines) > TRAIN_ROWS
    assert counts["rows_of_epoch"] == TRAIN_ROWS + counts["copies"]
    for epoch in read_events(run, "epoch"):
        assert epoch["step"] == -(-counts["rows_of_epoch"] // 32)


@pytest.mark.large
def test_what_was_made_from_the_same_is_used_again(whole):
    make, folder = whole
    words = ("--seed", "1", *settings(augmented__copies_per_epoch=1))
    answer = make("again", *words)
    assert answer.status == 0, answer.err
    for name in ("general", "copies.tsv"):
        assert f"{folder / name}: " in answer.out
    # Copies are drawn again for each epoch.
    (counts,) = read_events(folder / "again", "augmented")
    many = counts["copies"] + TRAIN_ROWS
    assert TRAIN_ROWS < counts["rows_of_epoch"] <= 2 * TRAIN_ROWS < many


@pytest.mark.large
def test_parts_of_a_cache_share_copies_and_need_no_general_student(
    whole, tmp_path
):
    make, _ = whole
    cache = ("--cache", tmp_path / "cache")
    for shard in (["--shard", "1/2"], ["--shard", "2/2"], []):
        answer = make("", *cache, *shard, verb="cache", made=tmp_path)
        assert answer.status == 0, answer.err
        made_before = "copies.tsv: made earlier" in answer.out
        assert made_before == (shard != ["--shard", "1/2"])
    left = {path.name for path in tmp_path.glob("[!.]*")}
    assert left == {"cache", "copies.tsv"}


@pytest.mark.large
@pytest.mark.parametrize(
    ("file", "more", "named"),
    [
        ("corpus.txt", "another film\n", "corpus"),
        ("data/SST-2/train.tsv", "another film\t1\n", "texts"),
    ],
)
def test_other_inputs_are_refused_by_their_content(file, more, named, whole):
    make, folder = whole
    before = (folder / file).read_text()
    (folder / file).write_text(before + more)
    answer = make("other")
    (folder / file).write_text(before)
    assert answer.status == 2
    assert f"content of the {named}" in answer.err


def test_a_missing_model_is_named_before_work(workspace, tmp_path):
    words = ["distill", "tinybert", *TAUGHT, "--general", "@missing"]
    answer = command(workspace.words([*words, "--run-dir", tmp_path / "run"]))
    assert answer.status == 2
    assert "missing" in answer.err
    assert not (tmp_path / "run" / "config.json").exists()


SHORT = ["a dog runs", "two cats sleep", "the man eats", "two men walk"]


@pytest.fixture
def table(tmp_path):
    """A table of pairs, with a column that does not count."""
    lines = ["id\tlong\tshort"] + [
        f"{number}\t{text} , and then it rains and {text}\t{text}"
        for number, text in enumerate(SHORT)
    ]
    path = tmp_path / "table.tsv"
    path.write_text("\n".join([*lines, ""]))
    return path


def test_spans_are_hidden_in_a_column_of_a_table(table):
    texts = Sentences(files=(str(table),), column="short").texts
    assert [*texts(held_out=True), *texts(held_out=False)] == SHORT
    with pytest.raises(ValueError, match="other"):
        list(Sentences(files=(str(table),), column="other").texts(False))


@pytest.mark.large
def test_verbs_take_tables_of_pairs(table, tmp_path):
    """Measured alike by the model and its file."""
    run = tmp_path / "run"
    pairs = ["--pairs", table, "--pair-columns", "long", "short"]
    words = ["pretrain", *pairs, "--held-out", table, "--run-dir", run]
    words += ["--student", "lightpaff_mass_6_4_layer", *PLAIN]
    words += ["--vocabulary-size", "290", "--force"]
    words += settings(
        student__encoder_num_layers=1,
        student__decoder_num_layers=1,
        student__hidden_dim=8,
        student__num_heads=2,
        student__intermediate_dim=12,
        epochs=1,
        corpus__sequence_length=64,
    )
    assert command(words).status == 0
    assert command(["export", run, "--precision", "fp32"]).status == 0
    (file,) = (run / "exports").glob("*.tflite")
    (event,) = read_events(run, "evaluation")
    assert event["examples"] == len(SHORT)
    found = []
    for model in (run, file):
        answer = command(["evaluate", model, *pairs, "--num-beams", "1"])
        assert answer.status == 0, answer.err
        found.append(json.loads(answer.out.splitlines()[-1]))
    of_run, of_file = (one["metrics"] for one in found)
    assert found[0]["examples"] == len(SHORT)
    perplexity = event["metrics"]["perplexity"]
    assert of_run["perplexity"] == pytest.approx(perplexity, rel=1e-5)
    assert of_file["bleu"] == pytest.approx(of_run["bleu"])
