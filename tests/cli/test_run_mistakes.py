"""What a run refuses, because its numbers would be other ones than expected."""

import argparse
import dataclasses
import pathlib

import pytest

from kdkit import export, models
from kdkit.cli import (
    choosing,
    evaluate,
    generate,
    opened_embedders,
    options,
    texts,
)
from kdkit.cli.main import main
from kdkit.cli.models import Place, open_model
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.runs import augmenting, smoke
from kdkit.runs.ranker_parts import RankerParts
from kdkit.runs.settings import require_cacheable
from kdkit.settings import override
from kdkit.tasks import get_task
from kdkit.training import CacheSettings, ModelSettings, UnlabeledSettings
from kdkit.training.data_settings import AugmentSettings

TEACHER, PRETRAINING = smoke.TEACHER, smoke.PRETRAINING
TINYBERT = smoke.distillation(RECIPES["tinybert"])
IN_TEXT, ACROSS, RANKING = (
    dataclasses.replace(smoke.embedder(RECIPES[name]), teacher="a teacher")
    for name in ("sentence_embedding", "multilingual", "reranker_to_embedder")
)
CACHE = CacheSettings("cache")
WORDS = AugmentSettings(task="sentiment", data_dir=None, model="a")
SIZES = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2}


def changed(settings, **changes):
    """A function that makes settings, which may be a mistake."""
    return lambda: dataclasses.replace(settings, **changes)


def overridden(settings, *assignments):
    return lambda: override(settings, assignments)


def stages_of(settings, **changes):
    return tuple(dataclasses.replace(s, **changes) for s in settings.stages)


def rounded(settings, *stages, **changes):
    made = [
        dataclasses.replace(stage, quantize=quantize)
        for stage, quantize in zip(settings.stages, stages, strict=True)
    ]
    return changed(settings, stages=tuple(made), **changes)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (changed(TEACHER, stages=2 * TEACHER.stages), "its own name"),
        (rounded(TINYBERT, "static_int8", None), "last stage"),
        (
            rounded(TINYBERT, None, "int4", dtype_policy="mixed_bfloat16"),
            "round in float32",
        ),
        (changed(PRETRAINING, teacher="a teacher"), "if it has a teacher"),
        (
            changed(PRETRAINING, tokenizer="a", vocabulary_size=300),
            "beside another",
        ),
        (
            changed(
                PRETRAINING,
                model=ModelSettings(checkpoint="a"),
                tokenizer="b",
            ),
            "beside another",
        ),
        (
            changed(TINYBERT, stages=IN_TEXT.stages + TINYBERT.stages),
            "Received: texts",
        ),
        (
            changed(TINYBERT, stages=stages_of(PRETRAINING)),
            "one of them on the task",
        ),
        (
            changed(TINYBERT, general=PRETRAINING),
            "a student without one",
        ),
        (
            changed(
                TINYBERT,
                stages=TEACHER.stages,
                unlabeled=UnlabeledSettings(("a.txt",)),
            ),
            "Received: unlabeled",
        ),
        (
            changed(
                TINYBERT,
                stages=RECIPES["tinybert"].variant("tinybert").stages,
                cache=CACHE,
            ),
            "stores no padding",
        ),
        (overridden(TINYBERT, "checkpoint_minutes=-1"), "at least 0"),
        (overridden(IN_TEXT, "stages.0.data=task"), "learns from texts"),
        (overridden(IN_TEXT, "stages.0.hard_label_weight=1"), "no labels"),
        (
            changed(
                IN_TEXT,
                student=ModelSettings(**SIZES, intermediate_dim=8, dropout=0.0),
                has_control=True,
            ),
            "two dropout masks",
        ),
        (overridden(ACROSS, "cache=null"), "read different tokens"),
        (overridden(RANKING, "cache=null"), "read different tokens"),
        (
            overridden(ACROSS, "stages.0.objectives.0.tap=hidden_states"),
            "read different tokens",
        ),
        (
            overridden(ACROSS, 'student={"checkpoint": "a"}'),
            "one vocabulary",
        ),
    ],
)
def test_settings_that_make_other_numbers_are_refused(make, named):
    with pytest.raises(UsageError, match=named):
        make()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with an empty file for each option."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "c.tsv", "config.json", "t.csv"):
        (tmp_path / name).write_text("{}")
    return tmp_path


SMOKE = "--smoke --run-dir run"
NEW = "--task sst2 --teacher a --run-dir run"
TEXTS = "--texts a.txt --teacher a --run-dir run"
GPT2 = "--model gpt2 --run-dir run --task-text a.txt"
MASS = "--model mass --run-dir run --pairs a.txt b.txt"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        # Options of other kinds of runs.
        (f"distill tinybert {NEW} --task-text a.txt", "--task-text"),
        (f"distill tinybert {NEW} --layers 1", "--layers"),
        (f"distill sentence_embedding {TEXTS} --corpus a.txt", "--corpus"),
        (f"distill sentence_embedding {TEXTS} --stages a", "--stages"),
        (f"distill multilingual {TEXTS}", "--texts"),
        (f"distill static_embedding {TEXTS} --num-layers 2", "--num-layers"),
        (f"distill lightpaff {GPT2} --task sst2", "--task"),
        (f"distill lightpaff {GPT2} --pairs a.txt b.txt", "--pairs"),
        (f"distill lightpaff {GPT2} --control", "--control"),
        (f"distill lightpaff {MASS} --task-text a.txt", "--task-text"),
        (f"distill lightpaff {GPT2} --quantize int8", "--quantize"),
        ("distill lightpaff --model t5 --run-dir run", "--model 't5'"),
        # Options beside those that decide them.
        (f"distill pkd {SMOKE} --task sst2", "--task is not read beside"),
        (f"distill pkd {SMOKE} --config config.json", "--smoke"),
        ("distill --config config.json --run-dir run --parity a", "--parity"),
        (f"train-teacher {SMOKE} --model a", "--model"),
        (f"pretrain {SMOKE} --corpus a.txt", "--corpus"),
        (f"distill sentence_embedding {SMOKE} --texts a.txt", "--texts"),
        (f"distill lightpaff --model gpt2 {SMOKE} --decoder a", "--decoder"),
        (f"distill pkd {NEW} --encoder b", "--teacher is not read beside"),
        (
            f"distill tinybert {NEW} --general a --num-layers 2",
            "--num-layers is not read beside --general",
        ),
        (
            f"distill sentence_embedding {TEXTS} --layers 1 --num-layers 2 "
            "--student tinybert_4_layer_en_uncased",
            "beside --student",
        ),
        (
            f"distill pkd {NEW} --train t.csv --text-column a --label-column b",
            "--task is not read beside a table",
        ),
        (
            f"distill lightpaff {GPT2} --pretrained a --decoder b",
            "--decoder is not read beside --pretrained",
        ),
        (
            f"distill lightpaff {GPT2} --pretrained a --general b --student c",
            "--student is not read beside --general",
        ),
        # Options that only another one reads.
        (f"distill pkd {NEW} --unlabeled-columns a", "without --unlabeled"),
        (f"distill pkd {NEW} --augment-model a", "without --augment"),
        (f"distill pkd {NEW} --column a", "without --corpus"),
        (f"distill pkd {NEW} --cache-precision int8", "without --cache"),
        ("pretrain --corpus a.txt --stage a --run-dir run", "without --recipe"),
        (
            "pretrain --corpus a.txt --model a --student b --run-dir run",
            "--student is not read beside --model",
        ),
        # Recipes and stages that do not read them.
        (
            f"distill tinybert {NEW} --corpus a.txt",
            "--corpus is not read by recipe",
        ),
        (
            f"distill tinybert {NEW} --pretrained a",
            "--pretrained is not read by recipe",
        ),
        (f"distill tinybert {NEW} --stages a", "stage 'a'. Expected one of"),
        ("distill pkd --config config.json --run-dir run", "kdkit distill"),
        # Short flags that could mean several fields.
        (
            f"distill tinybert {SMOKE} --epochs 3",
            "stages.prediction_layer.epochs=3",
        ),
        (
            f"distill lightpaff --model gpt2 {SMOKE} --learning-rate 1",
            "student.stages.0.learning_rate=1",
        ),
        (f"distill pkd {SMOKE} stages.0.batch_tokens=9", "batch_tokens"),
        (
            f"distill lightpaff --model mass {SMOKE} general.stages.0."
            "batch_size=9",
            "general.stages.0.batch_size is not read",
        ),
        # Text whose ids or languages would be other ones.
        (
            "pretrain --corpus a.txt --student bert_3_layer_en_uncased "
            "--run-dir run",
            "needs --tokenizer MODEL",
        ),
        (
            "distill lightpaff --model mass --run-dir run --decoder "
            "mass_6_layer --vocabulary-size 400 --corpus a.txt b.txt "
            "--languages en de --pairs b.txt a.txt",
            "b.txt is 'de' in --corpus and 'en' in --pairs",
        ),
        ("pretrain --corpus a.txt --student a --run-dir run", "preset 'a'"),
        ("evaluate a.txt --arm teacher", "--arm is not read for a.txt"),
        ("push . hf://ada/tiny", "has no model to upload"),
        # What a new run needs.
        ("distill tinybert --task sst2 --run-dir run", "Missing: --teacher"),
        (f"distill lightpaff {GPT2}", "Missing: --decoder, --corpus"),
        # What a sweep could not compare.
        (
            f"sweep vanilla_kd {SMOKE} --over data.dev_split=dev,other",
            "data.dev_split decides what is measured",
        ),
        (f"sweep tinybert {SMOKE} --over learning_rate=1,2", "matches"),
        (f"sweep pkd {SMOKE} --over temprature=1,2", "'temprature'"),
        (f"sweep pkd {SMOKE} --paper --over seed=1,2", "beside --paper"),
        (
            "sweep lightpaff --corpus a.txt --teacher a --num-layers 2 "
            "--over seed=1,2 --run-dir run",
            "--num-layers is not read by runs on running text",
        ),
        ("cache pkd --task sst2 --teacher a --cache c --shard 5/4", "--shard"),
    ],
)
def test_options_that_nothing_reads_are_refused(line, named, folder, capsys):
    before = sorted(folder.rglob("*"))
    assert main(line.split()) == 2
    assert named in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before


def of_objective(tap):
    loss = argparse.Namespace(counts_padding=False)
    return [argparse.Namespace(name="an objective", tap=tap, loss=loss)]


def compared_by(similarity):
    parts = object.__new__(RankerParts)
    parts.conventions = models.Conventions(similarity=similarity)
    return parts


def recipe_for(recipe, stage=None):
    options = argparse.Namespace(
        teacher="a", stage=stage, parity=None, pairs=None
    )
    return lambda: choosing.recipe_on_text(RECIPES[recipe], options)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (
            lambda: require_cacheable(of_objective("encoder_hidden_states")),
            "only the decoder's outputs",
        ),
        (compared_by("manhattan").check_conventions, "cosine or dot"),
        (lambda: augmenting.load_parts(WORDS, "new.tsv"), "no trained head"),
        (
            lambda: augmenting._require_text_task(get_task("conll")),
            "sentences or pairs",
        ),
        (recipe_for("tinybert"), "family of tinybert 'gpt2'"),
        (recipe_for("lightpaff", "one"), "stage 'one'"),
        (
            lambda: texts.languages_of(
                argparse.Namespace(languages=None),
                argparse.Namespace(
                    tokenizer=argparse.Namespace(languages=["en", "de"]),
                    languages=(None, None),
                ),
            ),
            "two of en, de",
        ),
        (
            lambda: options.require_labels(
                argparse.Namespace(labels=None), "test"
            ),
            "'test' has no labels",
        ),
        (lambda: generate._lines("lines.txt"), "line 2: expected a text"),
        (
            lambda: opened_embedders.open_embedder(
                argparse.Namespace(path="a.tflite"),
                argparse.Namespace(pooling=None),
            ),
            "a.tflite returns logits",
        ),
        (
            lambda: open_model(
                Place(pathlib.Path("a"), None, None, {}),
                evaluate.Options(task="sentiment"),
            ),
            "without a trained head",
        ),
    ],
)
def test_models_and_texts_that_are_other_ones_are_refused(
    call, named, folder, monkeypatch
):
    untrained = models.LoadedModel(None, None, False)
    for name in ("load_masked_lm", "load_classifier"):
        monkeypatch.setattr(models, name, lambda *_: untrained)
    monkeypatch.setattr(
        choosing, "_family_of_teacher", lambda _: ("GPT-2", "gpt2")
    )
    file = argparse.Namespace(outputs="logits")
    monkeypatch.setattr(export, "open_file", lambda *_: file)
    (folder / "lines.txt").write_text("one\n\ntwo\n")
    with pytest.raises(UsageError, match=named):
        call()
