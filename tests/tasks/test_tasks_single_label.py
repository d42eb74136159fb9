"""A user's own table of one text or two, with a label in each row."""

import json

import pytest
from helpers import eager_steps
from kinds import WORDS
from kinds import write_encoder

from kdkit.cli.main import main
from kdkit.errors import UsageError
from kdkit.tasks import get_task

CLASSES = ("billing", "delivery", "other")
HEADINGS = {
    "single_label": ("text", "label"),
    "single_label_pair": ("text", "text_pair", "label"),
}


@pytest.fixture(params=HEADINGS)
def name(request):
    return request.param


def write_table(data_dir, name, labels, split="train"):
    """Rows whose texts begin with another word for each class."""
    folder = data_dir / name
    folder.mkdir(exist_ok=True)
    (folder / "labels.txt").write_text("\n".join(CLASSES))
    lines = ["\t".join(HEADINGS[name])]
    for number, label in enumerate(labels):
        word = WORDS[CLASSES.index(label)] if label in CLASSES else "gh"
        texts = [f"{word} {WORDS[3 + number % 9]}"] * len(HEADINGS[name][:-1])
        lines.append("\t".join([*texts, label]))
    (folder / f"{split}.tsv").write_text("\n".join(lines))


def test_labels_are_numbered_as_the_label_set_has_them(name, tmp_path):
    write_table(tmp_path, name, ["other", "billing"])
    examples = get_task(name).load("train", tmp_path)
    assert len(examples.texts) == len(HEADINGS[name]) - 1
    assert examples.labels.tolist() == [2, 0]
    assert get_task(name).for_data(tmp_path).class_names == CLASSES


def test_an_unknown_label_is_told_with_its_line(name, tmp_path):
    write_table(tmp_path, name, ["other", "refund"])
    with pytest.raises(UsageError, match="line 3: unknown label.*'refund'"):
        get_task(name).load("train", tmp_path)


def test_a_missing_label_set_is_named(name, tmp_path):
    write_table(tmp_path, name, ["other"])
    (tmp_path / name / "labels.txt").unlink()
    with pytest.raises(UsageError, match="Missing data file: .*labels.txt"):
        get_task(name).load("train", tmp_path)


def test_a_model_is_trained_and_evaluated_on_it(tmp_path, capsys):
    name = "single_label_pair"
    for split in ("train", "dev", "test"):
        write_table(tmp_path, name, CLASSES * 8, split)
    write_encoder(tmp_path / "encoder")
    run_dir = tmp_path / "teacher"
    command = ["train-teacher", "--task", name, "--data-dir", str(tmp_path)]
    command += ["--model", str(tmp_path / "encoder"), "--run-dir", str(run_dir)]
    command.append("--force")  # texts of so few words come again in dev
    for setting in (
        "data.sequence_length=16",
        "stages.0.epochs=1",
        "stages.0.batch_size=8",
        "jit_compile=false",
    ):
        command += ["--set", setting]
    with eager_steps():
        assert main(command) == 0
    capsys.readouterr()
    assert main(["evaluate", str(run_dir), "--split", "test"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(found["metrics"]) == {"accuracy", "macro_f1"}
