"""The examples of the how-to pages give the shown results."""

import re
import shlex

import numpy as np
from kit.adapter import command, resolved
from kit.helpers import document, python_blocks

import kdkit
from kdkit.tasks import TASKS, get_task

LABELS = ("billing", "delivery", "other")


def objectives(*assignments):
    """The objectives of TinyBERT's stages with these settings."""
    words = [word for one in assignments for word in ("--set", one)]
    words = ["distill", "tinybert", "--smoke", *words, "--run-dir", "runs/x"]
    stages = resolved(words)["stages"].values()
    return [[*stage["objectives"].values()] for stage in stages]


def block_with(page, word):
    """The block of docs/PAGE.md with a word in it."""
    (found,) = [text for text in python_blocks(page) if word in text]
    return found


def test_a_layout_of_ones_own_is_a_task(tmp_path, monkeypatch):
    monkeypatch.setitem(TASKS, "complaints", None)  # goes when the test ends
    del TASKS["complaints"]
    exec(block_with("own_data", "register_task("), {"__name__": "my_tasks"})
    folder = tmp_path / "complaints"
    folder.mkdir()
    rows = "delivery\tToo late.\nbilling\tTwice paid.\n"
    (folder / "train.tsv").write_text(rows)
    loaded = TASKS["complaints"].load("train", tmp_path)
    assert loaded.texts[0] == ["Too late.", "Twice paid."]
    np.testing.assert_array_equal(loaded.labels, [1, 0])
    answer = command(["show", "vanilla_kd", "--task", "complaints"])
    assert answer.status == 0
    assert "stages.fine_tuning" in answer.out


def test_a_table_of_ones_own_is_a_task(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"text {n};{('bad', 'good')[n % 2]}" for n in range(30)]
    table = tmp_path / "reviews.csv"
    table.write_text("\n".join(["review;sentiment", *rows]))
    exec(block_with("own_data", "from_table("), {})
    assert capsys.readouterr().out == "reviews ('bad', 'good') 4\n"
    (text,) = re.findall(r"```toml\n(.*?)```", document("own_data"), re.S)
    rows = [f"text {n},{kind}" for n in range(9) for kind in LABELS]
    for name in ("complaints.csv", "complaints_dev.csv"):
        (tmp_path / name).write_text("\n".join(["text,kind", *rows]))
    (tmp_path / "complaints.toml").write_text(text)
    task = get_task("complaints.toml")
    assert task.class_names == LABELS
    assert task.primary_metric == "macro_f1"


def test_layer_map_of_ones_own_is_an_objective_and_a_setting():
    objective = eval(block_with("objectives", "layer_map={"), {"kdkit": kdkit})
    assert objective.layer_map == {1: 2, 2: 4, 3: 8, 4: 12}
    page = document("objectives")
    assignments = shlex.split(
        " ".join(re.findall(r"^    --set (.*?) \\$", page, re.M))
    )
    (attention, hidden), (soft,) = objectives(*assignments)
    layer_map = {int(m): g for m, g in attention["layer_map"].items()}
    assert layer_map == objective.layer_map
    assert hidden["weight"] == 0.5
    assert soft["loss"]["temperature"] == 2


def test_loss_of_ones_own_is_an_objective_and_a_setting():
    names = {"__name__": "my_losses"}
    exec(block_with("objectives", "HiddenStateL1"), names)
    states = np.zeros((1, 2, 4)), np.ones((1, 2, 4))
    loss = names["objective"].loss
    assert float(loss(*states, sample_weight=[[1, 0]])) == 1.0
    setting = re.search(r"stages\.\S*=hidden_state_l1", document("objectives"))
    (_, hidden), _ = objectives(setting[0])
    assert hidden["loss"]["name"] == "hidden_state_l1"
