"""Multi-label tasks: files, metrics, agreement, soft labels."""

import numpy as np
import pytest

from kdkit.losses import SoftBinaryCrossEntropy
from kdkit.recipes import RECIPES
from kdkit.tasks import TASKS, get_task

WORDS = ("joy", "fear", "anger")


def write_files(data_dir, rows, words=WORDS):
    folder = data_dir / "multi_label"
    folder.mkdir()
    lines = ["text\tlabels", *("\t".join(row) for row in rows)]
    (folder / "train.tsv").write_text("\n".join(lines) + "\n")
    (folder / "labels.txt").write_text("\n".join(words) + "\n")
    return folder / "train.tsv"


@pytest.fixture
def task():
    """The task with three classes."""
    kind = TASKS["multi_label"].kind
    return type(kind)(WORDS)


def test_label_words_become_a_row_of_zeros_and_ones(tmp_path):
    write_files(tmp_path, [("a", "joy"), ("b", "anger, joy"), ("c", "")])
    examples = get_task("multi_label").load("train", tmp_path)
    assert examples.texts == (["a", "b", "c"],)
    assert examples.labels.tolist() == [[1, 0, 0], [1, 0, 1], [0, 0, 0]]
    task = get_task("multi_label").for_data(tmp_path)
    assert task.class_names == WORDS
    assert task.num_classes == 3


def test_goemotions_has_the_official_layout(tmp_path):
    (tmp_path / "goemotions").mkdir()
    (tmp_path / "goemotions" / "train.tsv").write_text(
        "Love it!\t0,18\teebbqej\nFine.\t27\ted00q6i\n"
    )
    task = get_task("goemotions")
    labels = task.load("train", tmp_path).labels
    assert [
        [task.class_names[number] for number in np.flatnonzero(row)]
        for row in labels
    ] == [["admiration", "love"], ["neutral"]]


def test_metrics_match_their_definitions(task):
    generator = np.random.default_rng(0)
    labels = generator.integers(2, size=(40, 3))
    logits = generator.normal(size=(40, 3))
    predicted = 1 / (1 + np.exp(-logits)) > 0.5
    hits = (predicted * labels).sum(axis=0)
    sizes = predicted.sum(axis=0) + labels.sum(axis=0)
    metrics = task.compute_metrics(
        ("micro_f1", "macro_f1", "subset_accuracy"), labels, logits
    )
    assert metrics == {
        "micro_f1": pytest.approx(2 * hits.sum() / sizes.sum()),
        "macro_f1": pytest.approx(np.mean(2 * hits / sizes)),
        "subset_accuracy": pytest.approx(
            np.mean([all(p == t) for p, t in zip(predicted, labels)])  # noqa: B905
        ),
    }


def test_metrics_of_no_prediction_at_all_are_zero(task):
    metrics = task.compute_metrics(
        ("micro_f1", "macro_f1"), [[1, 0, 1]], [[-1.0, -1.0, -1.0]]
    )
    assert metrics == {"micro_f1": 0.0, "macro_f1": 0.0}


def test_agreement_treats_each_class_by_itself(task):
    teacher, student = np.random.default_rng(0).normal(size=(2, 20, 3))
    p, q = (1 / (1 + np.exp(-logits)) for logits in (teacher, student))
    divergence = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    assert task.agreement(teacher, student) == {
        "same_decisions": pytest.approx(np.mean((p > 0.5) == (q > 0.5))),
        "kl_divergence": pytest.approx(divergence.sum(axis=1).mean()),
    }


@pytest.mark.parametrize(
    ("recipe", "parity", "settings"),
    [
        (
            "tinybert",
            "tinybert",
            {"temperature": 1.0, "scale_by_temperature_squared": False},
        ),
        (
            "vanilla_kd",
            None,
            {"temperature": 10.0, "scale_by_temperature_squared": True},
        ),
        (
            "vanilla_kd",
            "pkd",
            {"temperature": 10.0, "scale_by_temperature_squared": True},
        ),
    ],
)
def test_soft_labels_of_recipes_become_those_of_each_class(
    recipe, parity, settings
):
    stages = RECIPES[recipe].stages_for(get_task("multi_label"), parity)
    (soft,) = [o for o in stages[-1].objectives if o.tap == "logits"]
    assert soft.loss == SoftBinaryCrossEntropy(**settings)
    assert soft.name == "soft_binary_cross_entropy"
