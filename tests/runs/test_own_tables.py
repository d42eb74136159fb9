"""A user's own table in every verb."""

import csv
import json

import numpy as np
import pytest
from kit.helpers import eager_steps, large_except, read_events
from kit.tasks import VOCABULARY, WORDS, write_encoder

from kdkit import models
from kdkit.cli.main import main

NUM_ROWS = 12
HEADINGS = {
    "reviews": ("review", "sentiment"),
    "pairs": ("first", "second", "relation"),
    "multi_label": ("text", "labels"),
}
SPLITS = ("train", "dev", "test")
LABELS = ("billing", "delivery", "other")
# More words than one may become in a copy.
PIECES = (*VOCABULARY, *(f"z{letter}" for letter in "abcdefgh"))
SHORT = [
    word
    for setting in (
        "data.sequence_length=16",
        "data.num_buckets=1",
        "jit_compile=false",
    )
    for word in ("--set", setting)
]
STUDENT = [
    word
    for setting in (
        "student.num_layers=1",
        "student.hidden_dim=8",
        "student.num_heads=2",
        "student.intermediate_dim=16",
        "student.max_sequence_length=32",
        "stages.intermediate_layer.epochs=1",
        "stages.prediction_layer.epochs=1",
        "stages.intermediate_layer.batch_size=256",
        "stages.prediction_layer.batch_size=256",
    )
    for word in ("--set", setting)
]


@pytest.fixture(scope="module", autouse=True)
def quick_steps():
    with eager_steps():
        yield


def rows_of(headings, num_rows, seed=0):
    """Rows whose first word is their label; all texts differ."""
    generator = np.random.default_rng(seed)
    for number in range(num_rows):
        label = number % len(LABELS)
        texts = [
            " ".join([WORDS[label], *generator.choice(WORDS[3:], 6)])
            for _ in headings[:-1]
        ]
        yield [*texts, LABELS[label]]


def write_table(root, name):
    """Three splits: quoted CSV files, or those of a built-in task."""
    folder = root / name
    folder.mkdir()
    is_built_in = name == "multi_label"
    if is_built_in:
        (folder / "labels.txt").write_text("\n".join(LABELS))
    for seed, split in enumerate(SPLITS):
        path = folder / f"{split}.{'tsv' if is_built_in else 'csv'}"
        with open(path, "w", newline="") as file:
            writer = csv.writer(
                file,
                delimiter="\t" if is_built_in else ";",
                quoting=csv.QUOTE_MINIMAL if is_built_in else csv.QUOTE_ALL,
                lineterminator="\n",
            )
            writer.writerow(HEADINGS[name])
            writer.writerows(rows_of(HEADINGS[name], NUM_ROWS, seed))


def data_words(root):
    """The options that name the table of a folder."""
    (folder,) = (one.parent for one in root.glob("*/train.*sv"))
    *texts, label = HEADINGS[folder.name]
    if folder.name == "multi_label":
        return ["--task", folder.name, "--data-dir", str(root)]
    files = [
        word
        for split in SPLITS
        for word in (f"--{split}", str(folder / f"{split}.csv"))
    ]
    return [*files, "--text-column", *texts, "--label-column", label]


@pytest.fixture(scope="module", params=large_except(tuple(HEADINGS), "reviews"))
def root(request, tmp_path_factory):
    """A folder with the table, its teacher and a masked-language model."""
    root = tmp_path_factory.mktemp(request.param)
    write_table(root, request.param)
    backbone, tokenizer = write_encoder(root / "encoder", PIECES)
    models.save_language_model(
        models.language_model(backbone),
        tokenizer,
        root / "masked_lm",
        16,
        (None, None),
    )
    words = ["--model", str(root / "encoder"), *SHORT]
    assert do(root, "train-teacher", *words, run="teacher", epochs=1) == 0
    return root


def do(root, verb, *words, run=None, epochs=None):
    """Gives a command on the table of a folder; returns its exit status."""
    if verb != "evaluate":
        words = [*words, *data_words(root)]
    if run is not None:
        words += ["--run-dir", str(root / run)]
    if epochs is not None:
        words += ["--set", f"stages.0.epochs={epochs}"]
    return main([verb, *words])


def taught(root, *words):
    """The options of a distillation from the teacher."""
    teacher = str(root / "teacher")
    return ["tinybert", "--teacher", teacher, *words, *SHORT, *STUDENT]


def last_line(capsys):
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_augment_and_its_parts(root):
    words = ["--model", str(root / "masked_lm"), "--copies", "2"]
    whole, shared = root / "whole.tsv", root / "shared.tsv"
    assert do(root, "augment", *words, "--output", str(whole)) == 0
    for shard in (["--shard", "1/2"], ["--shard", "2/2"], []):
        output = ["--output", str(shared), *shard]
        assert do(root, "augment", *words, *output) == 0
    head, *lines = whole.read_text().splitlines()
    assert head.startswith("source_row\tcolumn\tcopy\t")
    assert {int(line.split("\t")[0]) for line in lines} == set(range(NUM_ROWS))
    assert shared.read_text() == whole.read_text()


@pytest.fixture(scope="module")
def run(root):
    """A distillation on copies that it makes, with a cache."""
    words = [
        "--augment", str(root / "copies.tsv"),
        "--augment-model", str(root / "masked_lm"),
        "--cache", str(root / "cache"),
    ]  # fmt: skip
    assert do(root, "distill", *taught(root, *words), run="run") == 0
    return root / "run"


@pytest.mark.large
def test_distill_on_copies_that_it_makes_with_a_cache(root, run, capsys):
    (event,) = read_events(run, "augmented")
    assert event["rows"] == NUM_ROWS
    assert event["copies"] >= 10 * NUM_ROWS
    capsys.readouterr()
    assert do(root, "evaluate", str(run), "--split", "test") == 0
    found = last_line(capsys)
    assert found["examples"] == NUM_ROWS
    assert found["task"] in HEADINGS
    assert main(["report", str(run)]) == 0


def test_a_quoted_csv_from_teacher_to_file(tmp_path, monkeypatch, capsys):
    """The commands of a newcomer: only the first one names the data."""
    monkeypatch.chdir(tmp_path)
    headings = HEADINGS["reviews"]
    with open("my reviews.csv", "w", newline="") as file:
        writer = csv.writer(file, delimiter=";", quoting=csv.QUOTE_ALL)
        writer.writerow(["id", *headings])
        for number, (text, label) in enumerate(rows_of(headings, 40)):
            writer.writerow([number, text.replace(" ", "\n", 2), label])
    write_encoder(tmp_path / "encoder", PIECES)
    words = ["--train", "my reviews.csv", "--text-column", "review"]
    words += ["--label-column", "sentiment", "--model", "encoder", *SHORT]
    words += ["stages.0.epochs=1", "--run-dir", "teacher"]
    assert main(["train-teacher", *words]) == 0
    said = "dev: 10 % of my reviews.csv set aside, 3 examples"
    assert said in capsys.readouterr().out
    words = ["vanilla_kd", "--teacher", "teacher", "--run-dir", "run"]
    words += [
        "--pretrained",
        "encoder",
        "--num-layers",
        "1",
        "jit_compile=false",
    ]
    words += ["stages.0.epochs=1"]
    assert main(["distill", *words]) == 0
    printed = capsys.readouterr().out
    table = tmp_path / "my reviews.csv"
    assert f"Data of teacher: train {table}." in printed
    assert said in printed
    digests = [
        read_events(tmp_path / run, "inputs")[0]["digests"]["dev"]
        for run in ("teacher", "run")
    ]
    assert digests[0] == digests[1]
    assert main(["evaluate", "run"]) == 0
    found = last_line(capsys)
    assert (found["task"], found["examples"]) == ("my reviews", 3)
    new = tmp_path / "new.csv"
    new.write_text("review,sentiment\na b,other\nc d,billing\n")
    assert main(["evaluate", "run", "--test", str(new)]) == 0
    found = last_line(capsys)
    assert (found["split"], found["examples"]) == ("test", 2)
    assert main(["report", "run"]) == 0
    assert said in capsys.readouterr().out
    table.write_text(f"{table.read_text()}41;a b c;other\n")
    assert main(["distill", *words]) == 2
    said = "the content of the training examples has changed"
    assert said in capsys.readouterr().err
