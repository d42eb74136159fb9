"""Mistakes in command lines: they are named, and nothing is written."""

import re

import pytest
from kit.adapter import command

# What command lines share; SWEEP begins with a verb.
SHARED = {
    "SWEEP": "sweep vanilla_kd SMOKE --over",
    "SMOKE": "--smoke --run-dir run",
    "SIZES": '{"num_layers":1,"hidden_dim":8,"num_heads":2,'
    '"intermediate_dim":8,"dropout":0.0}',
}
# Command lines, and what their error names. `@encoder`, `@teacher` and `@data`
# are those of the shared runs.
MISTAKES = """
nonsense | 'nonsense'. Expected one of
list --nonsense | --nonsense
show | Missing: RECIPE
show pkd --task nonsense | 'nonsense'
show tinybert --parity nonsense | 'nonsense'
demo --nonsense | --nonsense
init pkd --output t.csv | t.csv already exists
train-teacher --run-dir run | student: Name one of: checkpoint
train-teacher --smoke | Missing: --run-dir
train-teacher --task sst2 --data-dir @data --model nothing --run-dir run \
| nothing
train-teacher SMOKE --set stages.fine_tuning.epochs=three \
| stages.fine_tuning.epochs
pretrain --run-dir run | corpus.files: Field required
pretrain --corpus a.txt --model nothing --run-dir run | nothing
pretrain --recipe pkd --corpus a.txt --run-dir run | no stage on running text
pretrain --corpus a.txt --run-dir run student=SIZES | needs --tokenizer
pretrain SMOKE --set nonsense=1 | 'nonsense'
augment --task sst2 | Missing: --output
augment --task sst2 --data-dir . --model nothing --output run | nothing
augment --task sst2 --data-dir @data --model @encoder --output run \
| no trained head
augment --task conll --data-dir . --model @encoder --output run \
| sentences or pairs
cache pkd | Missing: --cache
cache pkd --task sst2 --teacher a --cache c --shard 5/4 | --shard
distill | Missing: RECIPE
distill pkd SMOKE --devices 2 | --devices needs --strategy
distill pkd --task sst2 --data-dir @data --teacher nothing --run-dir run \
| nothing
doctor pkd | data.task: Field required
sweep pkd --run-dir run | Missing: --over
ablate pkd --run-dir run | Missing: --over
evaluate | Missing: MODEL
evaluate nothing | Missing: --task
evaluate a.txt --arm teacher | --arm is not read for a.txt
evaluate @encoder --task sst2 --data-dir @data | without a trained head
export | Missing: MODEL
export nothing | Missing: --task
export a.txt --test t.csv | --test is not read
benchmark | Missing: FILE|RUN
benchmark nothing.tflite | nothing.tflite
benchmark a.txt --adb --benchmark-model b.txt --end-to-end | with --adb
generate | Missing: MODEL
generate nothing --prompt a | nothing
generate . --prompt a --sampler random --temperature -1 | temperature
push . hf://ada/tiny | has no model to upload
report | Missing: RUN
report nothing | nothing
# What a sweep could not compare.
SWEEP data.dev_split=dev,other | data.dev_split decides what is measured
sweep tinybert SMOKE --over learning_rate=1,2 | matches
sweep pkd SMOKE --over temprature=1,2 | 'temprature'
sweep pkd SMOKE --paper --over seed=1,2 | with --paper
sweep lightpaff --corpus a.txt --teacher a --over teacher=a,b --run-dir run \
| teacher decides what is measured
sweep lightpaff --corpus a.txt --teacher a --num-layers 2 --over seed=1,2 \
--run-dir run | '--num-layers'
SWEEP temperature=1,2 temperature=3 | twice
SWEEP temperature=1,2 seed=1,2 --curves a.svg | one field
# Fields that would make other numbers than expected.
distill tinybert SMOKE training.checkpoint_minutes=-1 | greater than or equal
distill sentence_embedding SMOKE stages.distillation.data=task | data=texts
distill sentence_embedding SMOKE stages.distillation.hard_label_weight=1 \
| no labels
distill reranker_to_embedder SMOKE cache=null | read other tokens
distill multilingual SMOKE student={"dimensions":8} | the teacher's texts
pretrain --corpus a.txt b.txt --run-dir run corpus.kind=sentences \
corpus.languages=["en"] student=SIZES --tokenizer 400 | one for each file
distill pkd SMOKE --mixed-precision float16 --strategy mirrored | one device
distill pkd SMOKE --quantize int4 --mixed-precision bfloat16 | round in float32
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
    assert "Traceback" not in told.err
    assert named in told.err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(("line", "named"), [*mistakes()])
def test_a_mistake_is_named_with_status_2(line, named, folder, workspace):
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


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("training.seed = 2026-01-01", "valid integer"),
        ("training.seed = [", "Invalid value"),
        ('tsk = "sst2"', "'tsk'. Expected one of: "),
        ('training.seed = "a"', "training.seed: Input should be a valid"),
        ("[stages.fine_tuning]\nepoch = 1", "'epoch'. Expected one of: epochs"),
    ],
)
def test_mistakes_in_a_file_are_named(text, named, folder):
    (folder / "my.toml").write_text(f'recipe = "pkd"\n{text}')
    words = ["distill", "my.toml", "--smoke", "--run-dir", "run"]
    assert_refused(words, named, folder)
