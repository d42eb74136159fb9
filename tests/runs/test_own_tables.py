"""A user's own table in every verb."""

import csv
import json

import numpy as np
import pytest
from kit.adapter import command
from kit.helpers import large_except, read_events
from kit.runs import LENGTH, WORDS, settings

from kdkit import models

NUM_ROWS = 12
HEADINGS = {
    "reviews": ("review", "sentiment"),
    "pairs": ("first", "second", "relation"),
    "multi_label": ("text", "labels"),
}
SPLITS = ("train", "dev", "test")
LABELS = ("billing", "delivery", "other")
PLAIN = settings(training__jit_compile="false", data__sequence_length=LENGTH)


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
    """Quoted CSV files, or those of a built-in task; the options for them."""
    *texts, label = HEADINGS[name]
    is_built_in = name == "multi_label"
    folder, suffix = root / name, "tsv" if is_built_in else "csv"
    folder.mkdir()
    for seed, split in enumerate(SPLITS):
        with open(folder / f"{split}.{suffix}", "w", newline="") as file:
            writer = csv.writer(
                file,
                delimiter="\t" if is_built_in else ";",
                quoting=csv.QUOTE_MINIMAL if is_built_in else csv.QUOTE_ALL,
                lineterminator="\n",
            )
            writer.writerow(HEADINGS[name])
            writer.writerows(rows_of(HEADINGS[name], NUM_ROWS, seed))
    if is_built_in:
        (folder / "labels.txt").write_text("\n".join(LABELS))
        return ["--task", name, "--data-dir", root]
    files = [
        word
        for split in SPLITS
        for word in (f"--{split}", folder / f"{split}.csv")
    ]
    return [*files, "--text-column", *texts, "--label-column", label]


@pytest.fixture(scope="module")
def masked_lm(workspace, tmp_path_factory):
    """A masked language model around the shared encoder."""
    path = tmp_path_factory.mktemp("own_tables") / "masked_lm"
    place = str(workspace.path / "encoder")
    backbone, tokenizer = models.load_encoder(place)
    model = models.language_model(backbone)
    loaded = models.LoadedModel(model, tokenizer, sequence_length=LENGTH)
    models.save_model(loaded, path)
    return path


def said(*words):
    answer = command(words)
    assert answer.status == 0, answer
    return answer.out


@pytest.mark.parametrize("name", large_except(HEADINGS, "reviews"))
def test_from_a_teacher_over_copies_to_a_report(
    name, masked_lm, workspace, tmp_path
):
    own = write_table(tmp_path, name)
    augment = ("augment", *own, "--model", masked_lm, "--copies", "2")
    whole, shared = tmp_path / "whole.tsv", tmp_path / "shared.tsv"
    said(*augment, "--output", whole)
    for shard in (("--shard", "1/2"), ("--shard", "2/2"), ()):
        said(*augment, "--output", shared, *shard)
    _, head, *lines = whole.read_text().splitlines()
    assert head.startswith("source_row\tcolumn\tcopy\t")
    assert {int(line.split("\t")[0]) for line in lines} <= set(range(NUM_ROWS))
    assert shared.read_text() == whole.read_text()
    teacher, run = tmp_path / "teacher", tmp_path / "run"
    epoch = settings(stages__fine_tuning__epochs=1)
    encoder = ("--model", workspace.path / "encoder")
    said("train-teacher", *own, *encoder, *PLAIN, *epoch, "--run-dir", teacher)
    said(
        *("distill", "vanilla_kd", *own, "--teacher", teacher),
        *("--num-layers", "1", *PLAIN, *epoch, "--run-dir", run),
        *("--augment", whole, "--cache", tmp_path / "cache"),
    )
    (event,) = read_events(run, "augmented")
    assert event["rows"] == NUM_ROWS
    assert event["copies"] + event["left_out"] == len(lines)
    answer = json.loads(
        said("evaluate", run, "--split", "test").splitlines()[-1]
    )
    assert (answer["task"], answer["examples"]) == (name, NUM_ROWS)
    said("report", run)


def test_only_the_first_command_names_the_data(
    workspace, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "my reviews.csv"
    with open(table, "w", newline="") as file:
        writer = csv.writer(file, delimiter=";", quoting=csv.QUOTE_ALL)
        writer.writerow(["id", *HEADINGS["reviews"]])
        rows = rows_of(HEADINGS["reviews"], 40)
        for number, (text, label) in enumerate(rows):
            writer.writerow([number, text.replace(" ", "\n", 2), label])
    epoch = ("--epochs", "1", "training.jit_compile=false")
    dev = "dev: 10 % of my reviews.csv set aside, 3 examples"
    printed = said(
        *("train-teacher", "--train", table.name, "--text-column", "review"),
        *("--label-column", "sentiment", "--run-dir", "teacher"),
        *("--model", workspace.path / "encoder", *epoch),
        f"data.sequence_length={LENGTH}",
    )
    assert dev in printed
    words = ("distill", "vanilla_kd", "--teacher", "teacher", "--num-layers")
    words = (*words, "1", "--run-dir", "run", *epoch)
    assert dev in said(*words)
    teacher, student = (
        read_events(tmp_path / run, "inputs")[0]["digests"]["dev"]
        for run in ("teacher", "run")
    )
    assert teacher == student
    answer = json.loads(said("evaluate", "run").splitlines()[-1])
    assert (answer["task"], answer["examples"]) == ("my reviews", 3)
    new = tmp_path / "new.csv"
    new.write_text("review,sentiment\na b,other\nc d,billing\n")
    printed = said("evaluate", "run", "--test", new)
    answer = json.loads(printed.splitlines()[-1])
    assert (answer["split"], answer["examples"]) == ("test", 2)
    assert "set aside" in said("report", "run")
    table.write_text(f"{table.read_text()}41;a b c;other\n")
    answer = command(words)
    assert answer.status == 2
    assert "training examples has changed" in answer.err
