"""Mistakes in command lines: one line names them, and nothing is written."""

import functools
import itertools
import json
import re

import pytest
from kit.adapter import command, resolved

# What command lines share; STEPS and SWEEP begin with a verb.
SHARED = {
    "STEPS": "distill lightpaff GPT2 --pretrained P --general G",
    "SWEEP": "sweep vanilla_kd SMOKE --over",
    "SMOKE": "--smoke --run-dir run",
    "NEW": "--task sst2 --teacher a --run-dir run",
    "TEXTS": "--texts a.txt --teacher a --run-dir run",
    "GPT2": "--model gpt2 --run-dir run --task-text a.txt",
    "MASS": "--model mass --run-dir run --pairs a.txt b.txt",
    "SIZES": '{"num_layers":1,"hidden_dim":8,"num_heads":2,'
    '"intermediate_dim":8,"dropout":0.0}',
}
# Command lines, and what their one line of error names. `@encoder`,
# `@teacher` and `@data` are those of the shared runs.
MISTAKES = """
nonsense | 'nonsense'. Expected one of
list --nonsense | --nonsense
show | Missing: RECIPE
show nonsense | 'nonsense'
show pkd --task nonsense | 'nonsense'
show tinybert --parity nonsense | 'nonsense'
demo --nonsense | --nonsense
init pkd --output t.csv | t.csv already exists
train-teacher --run-dir run | Missing: --model
train-teacher --smoke | Missing: --run-dir
train-teacher --task sst2 --model nothing --run-dir run | nothing
train-teacher SMOKE --set stages.0.epochs=three | stages.fine_tuning.epochs
train-teacher SMOKE --set stages.0.epochs=-1 | equal to 1. Received: -1.
pretrain --run-dir run | Missing: --corpus
pretrain --corpus a.txt --model nothing --run-dir run | nothing
pretrain SMOKE --set nonsense=1 | 'nonsense'
augment --task sst2 | Missing: --model, --output
augment --task nonsense --model a --output run | 'nonsense'
augment --task sst2 --data-dir . --model nothing --output run | nothing
augment --task sst2 --data-dir @data --model @encoder --output run \
| no trained head
augment --task conll --data-dir . --model @encoder --output run \
| sentences or pairs
cache pkd | Missing: --cache
cache nonsense --task sst2 --teacher nothing --cache run | 'nonsense'
cache pkd --task sst2 --teacher a --cache c --shard 5/4 | --shard
distill | Missing: --run-dir
distill nonsense SMOKE | 'nonsense'
distill pkd | Missing: --run-dir
distill pkd --run-dir run | Missing: --teacher
distill pkd SMOKE --set nonsense=1 | 'nonsense'
distill pkd SMOKE --set seed=1.5 | seed: 
distill pkd SMOKE --seed nonsense | 'nonsense'
distill pkd SMOKE --parity nonsense | 'nonsense'
distill pkd SMOKE --devices 2 | --devices needs --strategy
distill pkd --task sst2 --teacher nothing --run-dir run | nothing
distill lightpaff --model nonsense SMOKE | 'nonsense'
distill --config nothing.json --run-dir run | nothing.json
doctor pkd | Missing: --teacher
doctor nonsense --smoke | 'nonsense'
sweep pkd --run-dir run | Missing: --over
ablate pkd --run-dir run | Missing: --over
ablate nonsense --over layer_map --run-dir run | 'nonsense'
evaluate | Missing: MODEL
evaluate nothing | Missing: --task
evaluate a.txt --arm teacher | --arm is not read for a.txt
evaluate @encoder --task sst2 --data-dir @data | without a trained head
export | Missing: MODEL
export nothing | Missing: --task
benchmark | Missing: FILE|RUN
benchmark nothing.tflite | nothing.tflite
generate | Missing: MODEL
generate nothing --prompt a | nothing
generate . --prompt a --sampler random --temperature -1 | temperature
push . hf://ada/tiny | has no model to upload
report | Missing: RUN
report nothing | nothing
# Words of no option.
distill pkd SMOKE --epoch | --epochs: expected a value
distill pkd SMOKE --t a | '--t'. Expected one of: --t
distill pkd --smoke=yes SMOKE | --smoke: expected no value
distill pkd SMOKE --teachr a | '--teachr'. Expected one of: --teacher
distill pkd SMOKE --epochs many | --epochs: invalid int value: 'many'
distill pkd SMOKE --cache-precision int9 | one of: int8
distill pkd vanilla_kd SMOKE | Unexpected: vanilla_kd
distill pkd SMOKE --teacher | --teacher: expected at least one value
# Options of other kinds of runs.
distill tinybert NEW --task-text a.txt | --task-text
distill tinybert NEW --layers 1 | --layers
distill sentence_embedding TEXTS --corpus a.txt | --corpus
distill sentence_embedding TEXTS --stages a | --stages
distill multilingual TEXTS | --texts
distill static_embedding TEXTS --num-layers 2 | --num-layers
distill lightpaff GPT2 --task sst2 | --task
distill lightpaff GPT2 --pairs a.txt b.txt | --pairs
distill lightpaff GPT2 --control | --control
distill lightpaff MASS --task-text a.txt | --task-text
distill lightpaff GPT2 --quantize int8 | --quantize
distill lightpaff --model t5 --run-dir run | --model 't5'
# Options beside those that decide them.
distill pkd SMOKE --task sst2 | --task is not read beside
distill pkd SMOKE --config config.json | --smoke
distill --config config.json --run-dir run --parity a | --parity
train-teacher SMOKE --model a | --model
pretrain SMOKE --corpus a.txt | --corpus
distill sentence_embedding SMOKE --texts a.txt | --texts
distill lightpaff --model gpt2 SMOKE --decoder a | --decoder
distill pkd NEW --encoder b | --teacher is not read beside
distill tinybert NEW --general a --num-layers 2 \
| --num-layers is not read beside --general
distill sentence_embedding TEXTS --layers 1 --num-layers 2 --student \
tinybert_4_layer_en_uncased | beside --student
distill pkd NEW --train t.csv --text-column a --label-column b \
| --task is not read beside a table
distill lightpaff GPT2 --pretrained a --decoder b \
| --decoder is not read beside --pretrained
distill lightpaff GPT2 --pretrained a --general b --student c \
| --student is not read beside --general
STEPS --corpus b.txt | --corpus is not read
# Options that only another one reads.
distill pkd NEW --unlabeled-columns a | without --unlabeled
distill pkd NEW --augment-model a | without --augment
distill pkd NEW --column a | without --corpus
distill pkd NEW --cache-precision int8 | without --cache
pretrain --corpus a.txt --stage a --run-dir run | without --recipe
pretrain --corpus a.txt --model a --student b --run-dir run \
| --student is not read beside --model
# Recipes and stages that do not read them.
distill tinybert NEW --corpus a.txt | --corpus is not read by recipe
distill tinybert NEW --pretrained a | --pretrained is not read by recipe
distill tinybert NEW --stages a | stage 'a'. Expected one of
distill pkd --config config.json --run-dir run | kdkit distill
# Short flags that could mean several fields.
distill tinybert SMOKE --epochs 3 | stages.prediction_layer.epochs=3
distill lightpaff --model gpt2 SMOKE --learning-rate 1 \
| student.stages.0.learning_rate=1
distill pkd SMOKE stages.0.batch_tokens=9 | batch_tokens
distill lightpaff --model mass SMOKE general.stages.0.batch_size=9 \
| general.stages.0.batch_size is not read
# Text whose ids or languages would be other ones.
pretrain --corpus a.txt --student bert_3_layer_en_uncased --run-dir run \
| needs --tokenizer MODEL
distill lightpaff --model mass --run-dir run --decoder mass_6_layer \
--vocabulary-size 400 --corpus a.txt b.txt --languages en de \
--pairs b.txt a.txt | b.txt is 'de' in --corpus and 'en' in --pairs
pretrain --corpus a.txt --student a --run-dir run | preset 'a'
# What a new run needs.
distill tinybert --task sst2 --run-dir run | Missing: --teacher
distill lightpaff GPT2 | Missing: --decoder, --corpus
# What a sweep could not compare.
SWEEP data.dev_split=dev,other | data.dev_split decides what is measured
sweep tinybert SMOKE --over learning_rate=1,2 | matches
sweep pkd SMOKE --over temprature=1,2 | 'temprature'
sweep pkd SMOKE --paper --over seed=1,2 | beside --paper
sweep lightpaff --corpus a.txt --teacher a --num-layers 2 --over seed=1,2 \
--run-dir run | '--num-layers'
SWEEP temperature=1,2 temperature=3 | twice
SWEEP temperature=1,2 seed=1,2 --curves a.svg | one field
# Settings that would make other numbers than expected.
distill tinybert SMOKE --parity tinybert --cache c | stores no padding
distill tinybert SMOKE checkpoint_minutes=-1 | greater than or equal to 0
distill sentence_embedding SMOKE stages.0.data=task | learns from texts
distill sentence_embedding SMOKE stages.0.hard_label_weight=1 | no labels
distill sentence_embedding SMOKE --control student=SIZES | two dropout masks
distill multilingual SMOKE cache=null | read different tokens
distill reranker_to_embedder SMOKE cache=null | read different tokens
distill multilingual SMOKE stages.0.objectives.0.tap=hidden_states \
| read different tokens
distill multilingual SMOKE student={"checkpoint":"a"} | one vocabulary
"""


def mistakes():
    for row in MISTAKES.strip().splitlines():
        if not row.startswith("#"):
            line, _, named = row.partition(" | ")
            for name, words in SHARED.items():
                line = re.sub(rf"\b{name}\b", words, line)
            yield line, named


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with a file for each option."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "c.tsv", "config.json", "t.csv"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "conll").mkdir()
    (tmp_path / "conll" / "train.txt").write_text("a O\n")
    return tmp_path


def assert_refused(words, named, folder):
    before = sorted(folder.rglob("*"))
    told = command(words)
    assert told.status == 2
    assert told.err.count("\n") == 1
    assert named in told.err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(("line", "named"), [*mistakes()])
def test_a_mistake_is_one_line_with_status_2(line, named, folder, workspace):
    words = line.split()
    if "@" in line:
        words = workspace.words(words)
    assert_refused(words, named, folder)


VERBS = sorted({line.split()[0] for line, _ in mistakes()} - {"nonsense"})


def test_every_verb_has_a_row():
    assert sorted(told_verbs()) == VERBS


def told_verbs():
    """The verbs, as the error for an unknown one lists them."""
    told = command(["nonsense"]).err
    return told.partition("Expected one of: ")[2].rstrip(".\n").split(", ")


@pytest.mark.parametrize(
    "line",
    ["--help", "--version", "list", "show pkd", "show tinybert --task cola"]
    + [f"{verb} --help" for verb in VERBS],
)
def test_right_command_lines_have_status_0(line):
    assert command(line.split()).status == 0


def test_no_verb_prints_the_help_with_status_2():
    told = command([])
    assert told.status == 2
    assert "distill" in told.out + told.err


SMOKES = {
    "train-teacher": "train-teacher",
    "pretrain": "pretrain",
    "distill": "distill tinybert",
}


@functools.cache
def config_text(verb):
    return json.dumps(
        resolved([*SMOKES[verb].split(), "--smoke", "--run-dir", "run"])
    )


def config_of(verb):
    """The settings of a smoke run, as config.json has them."""
    return json.loads(config_text(verb))


def assert_config_refused(verb, config, named, folder):
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    words = [verb, "--config", file, "--run-dir", "run"]
    assert_refused(words, named, folder)


def twice(config):
    config["stages"] *= 2


def rounded_first(config):
    config["stages"][0]["quantize"] = "static_int8"


def rounded_in_half(config):
    config["stages"][1]["quantize"] = "int4"
    config["dtype_policy"] = "mixed_bfloat16"


def on_text_alone(config):
    config["stages"] = config_of("pretrain")["stages"]


def unlabeled_without_teacher(config):
    config["stages"] = config_of("train-teacher")["stages"]
    config["unlabeled"] = {"files": ["a.txt"]}


@pytest.mark.parametrize(
    ("verb", "change", "named"),
    [
        ("train-teacher", twice, "its own name"),
        ("distill", rounded_first, "last stage"),
        ("distill", rounded_in_half, "round in float32"),
        ("distill", on_text_alone, "of them on the task"),
        ("distill", unlabeled_without_teacher, "Received: unlabeled"),
        (
            "distill",
            lambda config: config.update(general=config_of("pretrain")),
            "a student without one",
        ),
        (
            "pretrain",
            lambda config: config.update(teacher="a"),
            "if it has a teacher",
        ),
        (
            "pretrain",
            lambda config: config.update(tokenizer="a", vocabulary_size=9),
            "beside another",
        ),
        (
            "pretrain",
            lambda config: config.update(
                model={"checkpoint": "a"}, tokenizer="b"
            ),
            "beside another",
        ),
    ],
)
def test_settings_that_make_other_numbers_are_refused(
    verb, change, named, folder
):
    config = config_of(verb)
    change(config)
    assert_config_refused(verb, config, named, folder)


@pytest.mark.parametrize(
    ("verb", "made_by"), list(itertools.permutations(SMOKES, 2))
)
def test_settings_of_another_verb_name_the_verb_that_takes_them(
    verb, made_by, folder
):
    named = f"holds a run of kdkit {made_by}. Expected one of"
    assert_config_refused(verb, config_of(made_by), named, folder)


def test_a_teacher_within_a_run_begins_with_the_encoder_beside_it(folder):
    teacher_run = folder / "whole" / "teacher_run"
    teacher_run.mkdir(parents=True)
    config = config_of("train-teacher") | {
        "model": {"checkpoint": "pretrained"}
    }
    (teacher_run / "config.json").write_text(json.dumps(config))
    for place in (teacher_run / "config.json", teacher_run):
        words = ["train-teacher", "--run-dir", "run", "--config", place]
        assert_refused(words, "whole/pretrained_run", folder)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("seed = 2026-01-01", "valid integer"),
        ('devices = "two"', "invalid int value"),
        ('smoke = true\ntsk = "sst2"', "'tsk'"),
        ('seed = "a"', "--seed: Input should be a valid integer"),
        (
            "smoke = true\n[stages.0]\nepoch = 1",
            "'epoch'. Expected one of: epochs, ",
        ),
    ],
)
def test_mistakes_in_a_file_are_named(text, named, folder):
    (folder / "my.toml").write_text(f'recipe = "pkd"\n{text}')
    assert_refused(["distill", "my.toml", "--run-dir", "run"], named, folder)
